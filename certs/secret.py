"""
The Secret in which replicas share their pair, found and kept.

Whoever keeps it and finds none makes it, and the API server lets only one of them win; whoever changes it
says which version he read. A Secret without our label belongs to somebody else, like cert-manager: it is
read, never written. One with the label that holds nothing good is as good as none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from certs import state
from certs.state import BadSecret, State
from numalign.kube.client import Api, NotFound
from numalign.kube.decode.parts import Part
from numalign.model.errors import Mistake


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Secret stands."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """The path of all Secrets beside it."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/secrets"

    @property
    def path(self) -> str:
        """Its own path."""
        return f"{self.collection}/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        """Its name, as errors say it."""
        return f"Secret {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """What stands at a place: nothing (`raw` None), a state, or something with mistakes."""

    place: Place
    raw: Mapping[str, Any] | None = None
    state: State | None = None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def ours(self) -> bool:
        """Whether it is ours to change."""
        return Part(self.raw)["metadata"]["labels"][state.LABEL].value == state.OURS

    @property
    def lost(self) -> bool:
        """Whether it has to be made, or made anew."""
        return self.raw is None or (self.ours and self.state is None)

    def refused(self, mistakes: tuple[Mistake, ...]) -> "Found":
        """The same, seen as holding nothing good because of some mistakes, if there are any."""
        return replace(self, state=None, mistakes=mistakes) if mistakes else self


async def find(api: Api, place: Place) -> Found:
    """What stands there; raises `ClusterError`, but not because nothing does."""
    try:
        raw = await api.get(place.path, what=str(place))
    except NotFound:
        return Found(place)
    return _read(place, raw)


def judged(found: Found, *, names: Sequence[str], now: datetime) -> Found:
    """The same; refused if it is somebody else's and no client would accept it. Ours makes way by itself."""
    if found.state is None or found.ours:
        return found
    pair = found.state.current
    return found.refused((*state.untimely(pair, now=now), *state.misnamed(pair, names=names)))


async def keep(api: Api, found: Found, held: State) -> Found:
    """Put a state where something was found; raises `Conflict` if somebody else did so meanwhile."""
    place = found.place
    body = state.render(held, namespace=place.namespace, name=place.name, before=found.raw or state.EMPTY)
    if found.raw is None:
        return _read(place, await api.create(place.collection, body, what=str(place)))
    return _read(place, await api.replace(place.path, body, what=str(place)))


def _read(place: Place, raw: object) -> Found:
    if not isinstance(raw, dict):
        return Found(place, {}, mistakes=(Mistake("", "the API server's answer is no object"),))
    try:
        return Found(place, raw, state.read(raw))
    except BadSecret as error:
        # An empty one is a place kept free, by whoever installs us.
        return Found(place, raw, mistakes=error.mistakes if raw.get("data") else ())
