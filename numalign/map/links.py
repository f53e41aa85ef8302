"""The links of a page: to the server, or to another part of the same file."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlencode

from numalign.map.assets import STATIC


class Links(Protocol):
    """Returns the addresses of pages; an empty one if there is no such page."""

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """Return the address of the fleet with these names and values of its query."""

    def node(self, name: str) -> str:
        """Return the address of a node."""

    def pod(self, namespace: str, name: str) -> str:
        """Return the address of a pod."""

    def page(self, name: str) -> str:
        """Return the address of a page that shows no object of the cluster, such as `what-if`."""


@dataclass(frozen=True, slots=True)
class ServedLinks:
    """Links on a server that has a host of its own."""

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """See `Links`."""
        query = urlencode([*pairs], errors="replace")
        return f"/?{query}" if query else "/"

    def node(self, name: str) -> str:
        """See `Links`."""
        return f"/nodes/{_part(name)}"

    def pod(self, namespace: str, name: str) -> str:
        """See `Links`."""
        return f"/pods/{_part(namespace)}/{_part(name)}"

    def page(self, name: str) -> str:
        """See `Links`."""
        return f"/{name}"

    def static(self, name: str) -> str:
        """Return the address of a file of `STATIC`; it changes with the bytes and can be cached."""
        return f"/static/{name}?v={STATIC[name].version}"


@dataclass(frozen=True, slots=True)
class FileLinks:
    """Links in one file, which has the fleet and the pages of these nodes."""

    nodes: frozenset[str]

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """See `Links`; a file shows a single query."""
        return "" if [*pairs] else "#fleet"

    def node(self, name: str) -> str:
        """See `Links`."""
        return f"#{node_anchor(name)}" if name in self.nodes else ""

    def pod(self, namespace: str, name: str) -> str:  # noqa: ARG002  no pod has a page
        """See `Links`."""
        return ""

    def page(self, name: str) -> str:  # noqa: ARG002  these pages need a server
        """See `Links`."""
        return ""


def node_anchor(name: str) -> str:
    """Return the id of a node's section of a file."""
    return f"node-{_part(name)}"


def _part(name: str) -> str:
    """Return an escaped part of an address; the safe characters are those of `encodeURIComponent`."""
    return quote(name, safe="!'()*", errors="replace")
