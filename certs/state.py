"""
What replicas share: the pair that all of them serve, and what is about to take its place.

It stands in one Secret, in the form that people know: `tls.crt` and `tls.key` are what is served, `ca.crt` is
everything that is to be trusted. While a pair is being changed there are also `next-tls.crt` and
`next-tls.key`. Which authority is whose is not written down: signatures tell. No authority's key is kept.

    BadInput
    └── BadSecret    a Secret, or files, that hold no pair which could be served
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

from cryptography import x509

from certs import certificate
from certs.authority import Pair
from numalign.kube.decode.parts import Part
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import tls

CA = "ca.crt"
CERT = "tls.crt"
KEY = "tls.key"
NEXT_CERT = "next-tls.crt"
NEXT_KEY = "next-tls.key"

LABEL = "app.kubernetes.io/managed-by"
"""On a Secret that is ours to change it says `numalign`."""
OURS = "numalign"

EMPTY: Mapping[str, Any] = MappingProxyType({})

T = TypeVar("T")


class BadSecret(BadInput):
    """Raised when no pair can be read; each mistake names the key of the Secret, or the file."""


@dataclass(frozen=True, slots=True)
class State:
    """The pair that is served, the one that will be, and authorities of those that were served before."""

    current: Pair
    next: Pair | None = None
    retired: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """All authorities, each once: what an API server has to trust. A promotion does not change it."""
        coming = (self.next.ca_pem,) if self.next else ()
        return b"".join(dict.fromkeys((*self.retired, self.current.ca_pem, *coming)))


def of_files(files: Mapping[str, bytes]) -> State:
    """What files named like the keys of the Secret hold; raises `BadSecret` with everything that is wrong."""
    mistakes: list[Mistake] = []
    state = _state(files, mistakes)
    if state is None or mistakes:
        raise BadSecret(mistakes)
    return state


def read(secret: object) -> State:
    """What a v1 Secret holds; raises `BadSecret` with everything that is wrong with it."""
    data = Part(secret)["data"]
    files = {name: _decoded(part) for name, part in data.members()}
    whole = {name: content for name, content in files.items() if content is not None}
    mistakes: list[Mistake] = []
    state = _state(whole, mistakes)
    told = {mistake.where for mistake in data.mistakes}
    there = (Mistake(data[mistake.where].where, mistake.message) for mistake in mistakes)
    found = [*data.mistakes, *(mistake for mistake in there if mistake.where not in told)]
    if state is None or found:
        raise BadSecret(found)
    return state


def render(
    state: State, *, namespace: str, name: str, before: Mapping[str, Any] = EMPTY
) -> dict[str, object]:
    """The Secret that holds a state, marked as ours; in place of the one `before`, if there is one.

    A Secret's type cannot be changed once it is made, so it stays what it was.
    """
    metadata = before.get("metadata", {"namespace": namespace, "name": name})
    labels = {**(metadata.get("labels") or {}), LABEL: OURS}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**metadata, "labels": labels},
        "type": before.get("type", "kubernetes.io/tls"),
        "data": {key: base64.b64encode(value).decode() for key, value in _files(state).items()},
    }


def untimely(pair: Pair, *, now: datetime) -> tuple[Mistake, ...]:
    """Why a pair must not be served now, if it must not."""
    return tuple(Mistake(CERT, text) for text in tls.out_of_date(certificate.first(pair.cert_pem), now=now))


def misnamed(pair: Pair, *, names: Sequence[str]) -> tuple[Mistake, ...]:
    """Which of the names that clients will call are not in a pair's certificate."""
    shown = certificate.first(pair.cert_pem)
    there = ", ".join(certificate.names(shown)) or "none at all"
    missing = certificate.unnamed(shown, names)
    return tuple(Mistake(CERT, f"is not for {name}: its names are {there}") for name in missing)


def _files(state: State) -> dict[str, bytes]:
    files = {CA: state.bundle, CERT: state.current.cert_pem, KEY: state.current.key_pem}
    if state.next:
        files |= {NEXT_CERT: state.next.cert_pem, NEXT_KEY: state.next.key_pem}
    return files


def _decoded(part: Part) -> bytes | None:
    text = part.text()
    if part.value is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        part.wrong("is not base64")
        return None


def _state(files: Mapping[str, bytes], mistakes: list[Mistake]) -> State | None:
    """The state, or None with the mistakes added to those there are."""
    authorities = _looked_at(files, CA, tls.chain, mistakes) or ()
    current = _pair(files, CERT, KEY, authorities=authorities, mistakes=mistakes)
    coming = None
    if files.keys() & {NEXT_CERT, NEXT_KEY}:
        coming = _pair(files, NEXT_CERT, NEXT_KEY, authorities=authorities, mistakes=mistakes)
    if current is None:
        return None
    used = {current.ca_pem, coming.ca_pem if coming else b""}
    others = dict.fromkeys(map(certificate.as_pem, authorities))
    return State(current, coming, tuple(pem for pem in others if pem not in used))


def _pair(
    files: Mapping[str, bytes],
    cert: str,
    key: str,
    *,
    authorities: Sequence[x509.Certificate],
    mistakes: list[Mistake],
) -> Pair | None:
    chain = _looked_at(files, cert, tls.chain, mistakes)
    public = _looked_at(files, key, _public, mistakes)
    if chain is None or public is None:
        return None
    if tls.public(chain[0]) != public:
        mistakes.append(Mistake(key, f"is not the key of the certificate in {cert}"))
    root = certificate.root(chain, authorities)
    if root is None:
        if authorities:
            mistakes.append(Mistake(cert, f"is signed by none of the authorities in {CA}"))
        return None
    return Pair(certificate.as_pem(root), files[cert], files[key])


def _public(content: bytes) -> bytes | str:
    """The public half of a private key, or what is wrong with its file."""
    key = tls.private_key(content)
    return key if isinstance(key, str) else tls.public(key)


def _looked_at(
    files: Mapping[str, bytes], name: str, look: Callable[[bytes], T | str], mistakes: list[Mistake]
) -> T | None:
    """What a file holds; None with a mistake added, if it does not."""
    found = look(files[name]) if files.get(name) else "is missing"
    if isinstance(found, str):
        mistakes.append(Mistake(name, found))
        return None
    return found
