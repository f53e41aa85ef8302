"""Where links of a page lead: to the server, or to another part of the same file."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlencode

from numalign.map.assets import STATIC


class Links(Protocol):
    """The addresses of pages; an empty one where there is no such page."""

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """Return the fleet, by the name and value of what its query says."""

    def node(self, name: str) -> str:
        """Return a node."""

    def pod(self, namespace: str, name: str) -> str:
        """Return a pod."""

    def page(self, name: str) -> str:
        """Return what has no name of its own in the cluster, such as `what-if`."""


@dataclass(frozen=True, slots=True)
class ServedLinks:
    """On a server that has a host of its own."""

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
        """Return a file of `STATIC`; its address changes with its bytes, so that it may be kept for good."""
        return f"/static/{name}?v={STATIC[name].version}"


@dataclass(frozen=True, slots=True)
class FileLinks:
    """In one file, which has the fleet and the pages of these nodes."""

    nodes: frozenset[str]

    def fleet(self, pairs: Iterable[tuple[str, str]] = ()) -> str:
        """See `Links`. A file shows one query."""
        return "" if [*pairs] else "#fleet"

    def node(self, name: str) -> str:
        """See `Links`."""
        return f"#{node_anchor(name)}" if name in self.nodes else ""

    def pod(self, namespace: str, name: str) -> str:  # noqa: ARG002  no pod has a page
        """See `Links`."""
        return ""

    def page(self, name: str) -> str:  # noqa: ARG002  what asks a server is not in a file
        """See `Links`."""
        return ""


def node_anchor(name: str) -> str:
    """Return the id of a node's part of a file."""
    return f"node-{_part(name)}"


def _part(name: str) -> str:
    """Return a part of an address, with the characters that `encodeURIComponent` leaves as they are."""
    return quote(name, safe="!'()*", errors="replace")
