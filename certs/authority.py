"""
An authority (CA) made for a single pair.

A server and its callers share only the authority's certificate, which is no secret. The authority's key is
needed only to sign, so `issue` forgets it: nothing can be signed with it afterwards, and it cannot be stolen.
ECDSA P-256, because handshakes are the most expensive part of a short call. Certificates pass OpenSSL's
strict checks (key identifiers, key usage, a critical basic constraint), as clients grow stricter with time.

    BadInput
    └── BadOrder    names or days for which nothing can be issued
"""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import certificate
from numalign.model.errors import BadInput, Mistake

# Clocks in a cluster differ; a certificate must not be "not yet valid" on a machine that is a bit behind.
BACKDATED = timedelta(minutes=5)
# Ten years: more is most likely a typo.
LONGEST_DAYS = 3650

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)
_LONGEST_DNS_NAME = 253


class BadOrder(BadInput):
    """Raised when no certificate can be issued for such names, or for so many days."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a server needs and what its callers trust, as PEM. Keep `key_pem` secret."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        """Return no contents: a key must not get into a log."""
        return "Pair(...)"


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of the files of a pair."""

    ca: Path
    cert: Path
    key: Path


def issue(*, names: Sequence[str], days: int, now: datetime) -> Pair:
    """
    Return a serving pair for DNS names and IP addresses, from an authority that exists only for it.

    The authority vouches for servers only, never for other authorities. Raise `BadOrder` with every mistake
    in the names and days.
    """
    mistakes = [*wrong_names(names)]
    if not 1 <= days <= LONGEST_DAYS:
        mistakes.append(Mistake("days", f"{days} is not from 1 to {LONGEST_DAYS}"))
    if now.tzinfo is None:
        mistakes.append(Mistake("now", "has no time zone"))
    if mistakes:
        raise BadOrder(mistakes)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, until = "numalign authority", now + timedelta(days=days)
    ca = (
        _certificate(ca_name, ca_key.public_key(), issuer=ca_name, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    alternatives = [
        x509.IPAddress(address) if (address := certificate.address(name)) else x509.DNSName(name)
        for name in names
    ]
    signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    served = (
        _certificate("numalign", key.public_key(), issuer=ca_name, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(signer, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.as_pem(ca), certificate.as_pem(served), key_pem)


def write(pair: Pair, folder: Path) -> Files:
    """
    Write `ca.crt`, `tls.crt` and `tls.key`, the names that Kubernetes uses in a TLS Secret.

    The directory is created if necessary; the key is readable by its owner alone. Each file is replaced
    atomically, so a server that reads them meanwhile never sees half a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    _replace(files.key, pair.key_pem, mode=0o600)
    _replace(files.cert, pair.cert_pem, mode=0o644)
    _replace(files.ca, pair.ca_pem, mode=0o644)
    return files


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def wrong_names(names: Sequence[str]) -> Iterator[Mistake]:
    """Yield why no certificate can be issued for these names."""
    if isinstance(names, str):
        yield Mistake("names", f"{names!r} is a string: pass a list of names")
        return
    if not names:
        yield Mistake("names", "is empty: clients verify the name or address they call")
    for name in names:
        is_dns_name = len(name) <= _LONGEST_DNS_NAME and _DNS_NAME.fullmatch(name) is not None
        if not is_dns_name and not certificate.address(name):
            yield Mistake("names", f"{name!r} is neither a DNS name nor an IP address")


def _certificate(
    subject: str, key: ec.EllipticCurvePublicKey, *, issuer: str, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """Return what a CA certificate and a serving certificate have in common."""
    issuer_name, subject_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (issuer, subject)
    )
    serial, since = x509.random_serial_number(), now - BACKDATED
    return x509.CertificateBuilder(issuer_name, subject_name, key, serial, since, until).add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key), critical=False
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
