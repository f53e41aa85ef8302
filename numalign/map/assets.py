"""The files that pages load, and the content security policy that allows nothing else."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The header of every page: nothing inline, nothing from other sites, no framing."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load; `version` changes with its content."""

    body: bytes
    content_type: str
    version: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", hashlib.sha256(self.body).hexdigest()[:12])

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
