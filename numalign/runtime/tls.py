"""
The certificate of a server, and how it is replaced while connections are open.

`SSLContext.load_cert_chain` on a live context is not safe: an old key of another type stays in use, and a
half-written pair replaces the valid one. So a pair is first checked and loaded into its own context, and only
then becomes the current one; the listening context has no certificate and passes every new connection to the
current context in its SNI callback, which OpenSSL calls with or without a server name. An invalid pair is
rejected, and the old one stays in use. Open connections keep theirs.

With a CA for callers, each context also requests a certificate. OpenSSL verifies it with the context to which
the connection was passed, but requests it according to the original one, so both are configured.

    BadInput
    └── BadPair    a certificate and key that must not be served, or an invalid CA
"""

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.model.errors import BadInput, Mistake
from numalign.runtime import files
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX


class BadPair(BadInput):
    """Raised when a certificate and its key cannot be served; each mistake names its file."""


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The files of a serving pair: two PEM files."""

    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ServingPair:
    """A valid pair, and a context that serves it."""

    context: ssl.SSLContext
    serial: str
    expires: datetime


def load(pair: PairFiles, *, now: datetime, client_ca: Path | None = None) -> ServingPair:
    """Read and check a pair, and the CA for callers; raise `BadPair` with all mistakes."""
    before = _contents(pair.cert, pair.key)
    certificates, key = chain(before[0]), private_key(before[1])
    mistakes = [
        Mistake(str(path), result)
        for path, result in ((pair.cert, certificates), (pair.key, key))
        if isinstance(result, str)
    ]
    if isinstance(certificates, str):
        raise BadPair(mistakes)
    # The serving certificate is the first in its file.
    certificate = certificates[0]
    mistakes += (Mistake(str(pair.cert), text) for text in out_of_date(certificate, now=now))
    if not isinstance(key, str) and public(certificate) != public(key):
        mistakes.append(Mistake(str(pair.key), f"does not match the certificate in {pair.cert}"))
    if mistakes:
        raise BadPair(mistakes)
    context = bare_context(request_certificate=client_ca is not None)
    if client_ca:
        authority = chain(*_contents(client_ca))
        if isinstance(authority, str):
            raise BadPair([Mistake(str(client_ca), authority)])
        pem = "".join(one.public_bytes(Encoding.PEM).decode() for one in authority)
        context.load_verify_locations(cadata=pem)
    try:
        # A passphrase is given so that OpenSSL never asks the terminal for one.
        context.load_cert_chain(pair.cert, pair.key, password=lambda: b"")
    except (ssl.SSLError, OSError) as error:
        raise BadPair([Mistake(str(pair.cert), f"cannot be served: {error}")]) from error
    if _contents(pair.cert, pair.key) != before:
        raise BadPair([Mistake(str(pair.cert), "or its key changed while they were read")])
    return ServingPair(context, f"{certificate.serial_number:x}", certificate.not_valid_after_utc)


def bare_context(*, request_certificate: bool = False) -> ssl.SSLContext:
    """Return a context without a certificate: TLS 1.2 or later, HTTP/1.1; callers may have to show one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if request_certificate:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Keeper:
    """Holds the pair for new connections; `context` is that of the listening server."""

    def __init__(
        self,
        pair: PairFiles,
        *,
        log: Log,
        registry: CollectorRegistry,
        clock: Clock = utc_now,
        client_ca: Path | None = None,
    ) -> None:
        """Load the first pair; raise `BadPair`, because a server without one must not start."""
        self.files, self.client_ca = pair, client_ca
        self._log, self._clock = log, clock
        self._expiry = Gauge(
            f"{PREFIX}tls_certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate, as a Unix time.",
            registry=registry,
        )
        self._reloads = Counter(
            f"{PREFIX}tls_reloads",
            "Changes of the certificate files, by whether the new certificate was loaded or rejected.",
            ["result"],
            registry=registry,
        )
        self._paths = [path for path in (pair.cert, pair.key, client_ca) if path]
        self._stamps = files.stamps(self._paths)
        self._load()
        self.context = bare_context(request_certificate=client_ca is not None)
        self.context.sni_callback = self._show

    def reload(self) -> bool:
        """Serve the pair in the files if it is valid, else keep the old one and log why; True if new."""
        try:
            self._load()
        except BadPair as error:
            self._reloads.labels("refused").inc()
            self._log.error("tls.reload_failed", errors=error.mistakes)
            return False
        self._reloads.labels("loaded").inc()
        self._log.info("tls.loaded", serial=self.current.serial, expires=self.current.expires)
        return True

    async def watch(self, *, every: float, sleep: Sleep = asyncio.sleep) -> None:
        """Reload whenever the files change, checked every so many seconds; never returns."""

        async def changed() -> None:
            self.reload()

        await files.watch(self._paths, since=self._stamps, every=every, changed=changed, sleep=sleep)

    def trouble(self) -> str | None:
        """Return why clients would reject the current pair, for readiness; None if they would not."""
        if self._clock() < self.current.expires:
            return None
        return f"the certificate expired at {self.current.expires.isoformat()}"

    def _load(self) -> None:
        self.current = load(self.files, now=self._clock(), client_ca=self.client_ca)
        self._expiry.set(self.current.expires.timestamp())

    def _show(self, connection: ssl.SSLSocket | ssl.SSLObject, *_: object) -> None:
        connection.context = self.current.context


def _contents(*paths: Path) -> list[bytes]:
    contents, mistakes = list[bytes](), list[Mistake]()
    for path in paths:
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            mistakes.append(Mistake(str(path), f"cannot be read: {error.strerror}"))
    if mistakes:
        raise BadPair(mistakes)
    return contents


def chain(content: bytes) -> tuple[x509.Certificate, ...] | str:
    """Return the certificates in a PEM file, the first with a usable key, or what is wrong with it."""
    try:
        certificates = tuple(x509.load_pem_x509_certificates(content))
        certificates[0].public_key()
    except UnsupportedAlgorithm:
        return "contains a certificate with an unsupported type of key"
    except ValueError:
        return "contains no PEM certificate (-----BEGIN CERTIFICATE-----)"
    return certificates


def private_key(content: bytes) -> PrivateKeyTypes | str:
    """Return the private key in a PEM file, or what is wrong with it."""
    try:
        return load_pem_private_key(content, password=None)
    except TypeError:
        return "is encrypted: use a private key without a passphrase"
    except (ValueError, UnsupportedAlgorithm):
        return "contains no PEM private key (-----BEGIN PRIVATE KEY-----)"


def out_of_date(certificate: x509.Certificate, *, now: datetime) -> Iterator[str]:
    """Yield why a certificate is not valid now, if it is not."""
    if now < certificate.not_valid_before_utc:
        yield f"is not valid before {certificate.not_valid_before_utc.isoformat()}"
    if now >= certificate.not_valid_after_utc:
        yield f"expired at {certificate.not_valid_after_utc.isoformat()}"


def public(holder: x509.Certificate | PrivateKeyTypes) -> bytes:
    """Return the public part of a key or of a certificate's key, in a form that can be compared."""
    return holder.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
