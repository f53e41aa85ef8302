"""The links of a page: to the server or to another part of the same file, and the files that pages load."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import quote, urlencode


@dataclass(frozen=True)
class Asset:
    """A file that pages load."""

    body: bytes
    content_type: str

    @cached_property
    def version(self) -> str:
        """A word that changes with its content."""
        return hashlib.sha256(self.body).hexdigest()[:12]

    @property
    def integrity(self) -> str:
        """The file's hash in the form of a content security policy."""
        return f"'sha256-{b64encode(hashlib.sha256(self.body).digest()).decode()}'"


def _text(name: str) -> str:
    return (files("numalign.map") / "static" / name).read_text()


STYLE, SCRIPT = "map.css", "map.js"

PALETTE_AND_DRAWING = _text("palette.css") + _text("drawing.css")
"""The style of drawings, in pages and in files of their own."""

STATIC: Mapping[str, Asset] = MappingProxyType(
    {
        STYLE: Asset((PALETTE_AND_DRAWING + _text("page.css")).encode(), "text/css"),
        SCRIPT: Asset(_text("map.js").encode(), "text/javascript"),
    }
)
"""The files that are served below `/static/`, by name."""


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of pages, on a server that has a host of its own; empty if there is no such page.

    With `in_file`, they are those in one file, which has the fleet and the pages of these nodes.
    """

    in_file: frozenset[str] | None = None

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """Return the address of the fleet with these names and values of its query; files show one."""
        query = urlencode([*pairs], errors="replace")
        if self.in_file is not None:
            return "" if query else "#fleet"
        return f"/?{query}" if query else "/"

    def node(self, name: str) -> str:
        """Return the address of a node."""
        if self.in_file is not None:
            return f"#{node_anchor(name)}" if name in self.in_file else ""
        return f"/nodes/{_part(name)}"

    def pod(self, namespace: str, name: str) -> str:
        """Return the address of a pod."""
        return f"/pods/{_part(namespace)}/{_part(name)}" if self.in_file is None else ""

    def page(self, name: str) -> str:
        """Return the address of a page that shows no object of the cluster, such as `what-if`."""
        return f"/{name}" if self.in_file is None else ""

    def static(self, name: str) -> str:
        """Return the address of a file of `STATIC`; it changes with the bytes and can be cached."""
        return f"/static/{name}?v={STATIC[name].version}"


def node_anchor(name: str) -> str:
    """Return the id of a node's section of a file."""
    return f"node-{_part(name)}"


def _part(name: str) -> str:
    """Return an escaped part of an address; the safe characters are those of `encodeURIComponent`."""
    return quote(name, safe="!'()*", errors="replace")
