"""
What replicas share: the pair that all of them serve, and its successor during a rotation.

It is stored in one Secret, in the usual form: `tls.crt` and `tls.key` are served, `ca.crt` is the CA bundle
with all authorities to trust. During a rotation there are also `next-tls.crt` and `next-tls.key`. Which
authority signed which certificate is not stored: the signatures show it. No authority's key is kept.

If there is no Secret, writing creates it, and the API server lets only one writer win; changing it requires
the version that was read. A Secret without our label belongs to another program, such as cert-manager: it is
read, never written. One with the label but no usable pair counts as missing.

    BadInput
    └── BadSecret    a Secret, or files, that hold no pair which could be served
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

from cryptography import x509

from certs import certificate
from certs.authority import Pair
from numalign.kube.client import Api
from numalign.kube.decode.parts import Part
from numalign.kube.errors import NotFound
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import tls

CA = "ca.crt"
CERT = "tls.crt"
KEY = "tls.key"
NEXT_CERT = "next-tls.crt"
NEXT_KEY = "next-tls.key"

LABEL = "app.kubernetes.io/managed-by"
"""The label whose value is `numalign` on a Secret that numalign may change."""
OURS = "numalign"

EMPTY: Mapping[str, Any] = MappingProxyType({})

T = TypeVar("T")


class BadSecret(BadInput):
    """Raised when no pair can be read; each mistake names the key of the Secret, or the file."""


@dataclass(frozen=True, slots=True)
class PairState:
    """The served pair, the next one, and the authorities of earlier pairs."""

    current: Pair
    next: Pair | None = None
    retired: tuple[bytes, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Return all authorities, each once: what API servers must trust. A promotion does not change it."""
        coming = (self.next.ca_pem,) if self.next else ()
        return b"".join(dict.fromkeys((*self.retired, self.current.ca_pem, *coming)))


@dataclass(frozen=True, slots=True)
class SecretRef:
    """The namespace and name of a Secret."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """Return the path of the Secrets in its namespace."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/secrets"

    @property
    def path(self) -> str:
        """Return its path."""
        return f"{self.collection}/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return f"Secret {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """A Secret as read: missing (`raw` is None), with a state, or with mistakes."""

    ref: SecretRef
    raw: Mapping[str, Any] | None = None
    state: PairState | None = None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def ours(self) -> bool:
        """Return whether numalign may change it."""
        return Part(self.raw)["metadata"]["labels"][LABEL].value == OURS

    @property
    def lost(self) -> bool:
        """Return whether it has to be created, or created again."""
        return self.raw is None or (self.ours and self.state is None)


async def read(api: Api, ref: SecretRef) -> SharedSecret:
    """Read the Secret; raise `ClusterError`, but not for one that does not exist."""
    try:
        raw = await api.get(ref.path, what=str(ref))
    except NotFound:
        return SharedSecret(ref)
    return _parsed(ref, raw)


async def read_for(api: Api, ref: SecretRef, *, names: Sequence[str], now: datetime) -> SharedSecret:
    """Do the same as `read`; a state of another program that no client would accept now is a mistake."""
    secret = await read(api, ref)
    # A state of our own is replaced anyway.
    if secret.state is None or secret.ours:
        return secret
    pair = secret.state.current
    served = certificate.first(pair.cert_pem)
    listed = ", ".join(certificate.names(served)) or "none at all"
    misnamed = (
        Mistake(CERT, f"is not valid for {name}: its names are {listed}")
        for name in certificate.unnamed(served, names)
    )
    mistakes = (*untimely(pair, now=now), *misnamed)
    return replace(secret, state=None, mistakes=mistakes) if mistakes else secret


async def write(api: Api, secret: SharedSecret, state: PairState) -> SharedSecret:
    """Write a state in place of what was read; raise `Conflict` if it was changed meanwhile."""
    ref = secret.ref
    body = render(state, namespace=ref.namespace, name=ref.name, before=secret.raw or EMPTY)
    if secret.raw is None:
        return _parsed(ref, await api.create(ref.collection, body, what=str(ref)))
    return _parsed(ref, await api.replace(ref.path, body, what=str(ref)))


def _parsed(ref: SecretRef, raw: object) -> SharedSecret:
    if not isinstance(raw, dict):
        return SharedSecret(ref, {}, mistakes=(Mistake("", "the API server's response is not an object"),))
    try:
        return SharedSecret(ref, raw, parse(raw))
    except BadSecret as error:
        # An empty one is a placeholder that the installation created.
        return SharedSecret(ref, raw, mistakes=error.mistakes if raw.get("data") else ())


def untimely(pair: Pair, *, now: datetime) -> tuple[Mistake, ...]:
    """Return why a pair must not be served now; empty if it may."""
    return tuple(Mistake(CERT, text) for text in tls.out_of_date(certificate.first(pair.cert_pem), now=now))


def render(
    state: PairState, *, namespace: str, name: str, before: Mapping[str, Any] = EMPTY
) -> dict[str, object]:
    """Return the v1 Secret with a state, labelled as ours; in place of the one `before`, if there is one."""
    metadata = before.get("metadata", {"namespace": namespace, "name": name})
    files = {CA: state.bundle, CERT: state.current.cert_pem, KEY: state.current.key_pem}
    if state.next:
        files |= {NEXT_CERT: state.next.cert_pem, NEXT_KEY: state.next.key_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), LABEL: OURS}},
        # It cannot be changed after the creation.
        "type": before.get("type", "kubernetes.io/tls"),
        "data": {key: base64.b64encode(content).decode() for key, content in files.items()},
    }


def parse(raw: object) -> PairState:
    """Return the state in a v1 Secret; raise `BadSecret` with every mistake."""
    data = Part(raw)["data"]
    files = dict[str, bytes]()
    for name, part in data.members():
        text = part.text()
        if part.value is None:
            continue
        try:
            files[name] = base64.b64decode(text, validate=True)
        except ValueError:
            part.wrong("is not base64")
    undecoded = {mistake.where for mistake in data.mistakes}
    state, wrong = None, [*data.mistakes]
    try:
        state = of_files(files)
    except BadSecret as error:
        placed = (Mistake(data[mistake.where].where, mistake.message) for mistake in error.mistakes)
        wrong += [mistake for mistake in placed if mistake.where not in undecoded]
    if state is None or wrong:
        raise BadSecret(wrong)
    return state


def of_files(files: Mapping[str, bytes]) -> PairState:
    """Return the state in files named like the keys of the Secret; raise `BadSecret` with every mistake."""
    mistakes: list[Mistake] = []
    authorities = _parse_file(files, CA, tls.chain, mistakes) or ()
    current = _pair(files, CERT, KEY, authorities=authorities, mistakes=mistakes)
    coming = None
    if files.keys() & {NEXT_CERT, NEXT_KEY}:
        coming = _pair(files, NEXT_CERT, NEXT_KEY, authorities=authorities, mistakes=mistakes)
    if current is None or mistakes:
        raise BadSecret(mistakes)
    used = {current.ca_pem, coming.ca_pem if coming else b""}
    pems = dict.fromkeys(map(certificate.as_pem, authorities))
    return PairState(current, coming, tuple(pem for pem in pems if pem not in used))


def _pair(
    files: Mapping[str, bytes],
    cert: str,
    key: str,
    *,
    authorities: Sequence[x509.Certificate],
    mistakes: list[Mistake],
) -> Pair | None:
    chain = _parse_file(files, cert, tls.chain, mistakes)
    public = _parse_file(files, key, _public_key, mistakes)
    if chain is None or public is None:
        return None
    if tls.public(chain[0]) != public:
        mistakes.append(Mistake(key, f"does not match the certificate in {cert}"))
    root = certificate.root(chain, authorities)
    if root is None:
        if authorities:
            mistakes.append(Mistake(cert, f"is not signed by any authority in {CA}"))
        return None
    return Pair(certificate.as_pem(root), files[cert], files[key])


def _public_key(content: bytes) -> bytes | str:
    """Return the public half of a private key, or what is wrong with its file."""
    key = tls.private_key(content)
    return key if isinstance(key, str) else tls.public(key)


def _parse_file(
    files: Mapping[str, bytes], name: str, parse_content: Callable[[bytes], T | str], mistakes: list[Mistake]
) -> T | None:
    """Return the parsed content of a file; None, with a mistake added, if it is invalid."""
    content = parse_content(files[name]) if files.get(name) else "is missing"
    if isinstance(content, str):
        mistakes.append(Mistake(name, content))
        return None
    return content
