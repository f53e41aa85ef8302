"""
An authority made for one purpose, and the pair it vouches for.

A server and those who call it share one secret-free fact: the authority's certificate. Its key is needed
only while it signs, so `issue` forgets it; nobody can sign with it afterwards, and there is nothing to steal.
ECDSA P-256 because handshakes are the dearest part of a short call. What is issued passes OpenSSL's strict
checks (key identifiers, key usage, a critical basic constraint), for clients grow stricter with time.

    BadInput
    └── BadOrder    names or days for which nothing can be issued
"""

import ipaddress
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from numalign.model.errors import BadInput, Mistake

# Clocks in a cluster differ; a certificate must not be "not yet valid" on a machine that is a bit behind.
BACKDATED = timedelta(minutes=5)
# Ten years: more is a slip of the keyboard, and no client needs it.
LONGEST_DAYS = 3650

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)
_LONGEST_DNS_NAME = 253


class BadOrder(BadInput):
    """Raised when no certificate can be issued for such names, or for so many days."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that vouches for others, and the key that signs them."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """What a server needs and what its callers trust, as PEM. Keep `key_pem` to yourself."""

    ca_pem: bytes
    cert_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        """Nothing: a key must not reach a log."""
        return "Pair(...)"


@dataclass(frozen=True, slots=True)
class Files:
    """Where a pair was written."""

    ca: Path
    cert: Path
    key: Path


def issue(*, names: Sequence[str], days: int, now: datetime) -> Pair:
    """A serving pair for DNS names and IP addresses, from an authority that exists only for it.

    Raises `BadOrder` with everything that is wrong with the names and days.
    """
    mistakes = [*wrong_names(names), *_mistaken_days(days), *_mistaken_now(now)]
    if mistakes:
        raise BadOrder(mistakes)
    return serving_pair(authority(days=days, now=now), names=names, days=days, now=now)


def authority(*, days: int, now: datetime) -> Authority:
    """An authority that vouches for servers only, never for other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("numalign authority")
    certificate = (
        _certificate(name, key.public_key(), issuer=name, days=days, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def serving_pair(signer: Authority, *, names: Sequence[str], days: int, now: datetime) -> Pair:
    """A new key and a certificate for it, signed by the authority; `names` and `days` must be good."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = signer.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _certificate(_name("numalign"), key.public_key(), issuer=issuer.subject, days=days, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(signer.key, hashes.SHA256())
    )
    return Pair(_pem(issuer), _pem(certificate), _key_pem(key))


def write(pair: Pair, folder: Path) -> Files:
    """Write `ca.crt`, `tls.crt` and `tls.key`, the names Kubernetes gives them in a TLS secret.

    The folder is made if need be; the key is readable by its owner alone. Each file is replaced in one step,
    so a server that looks at them meanwhile never sees half a file.
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
    """Why no certificate can be issued for these names."""
    if isinstance(names, str):
        yield Mistake("names", f"{names!r} is one text: give a list of names")
        return
    if not names:
        yield Mistake("names", "is empty: clients verify the name or address they call")
    for name in names:
        if not _address(name) and not _is_dns_name(name):
            yield Mistake("names", f"{name!r} is neither a DNS name nor an IP address")


def _is_dns_name(name: str) -> bool:
    return len(name) <= _LONGEST_DNS_NAME and _DNS_NAME.fullmatch(name) is not None


def _mistaken_days(days: int) -> Iterator[Mistake]:
    if not 1 <= days <= LONGEST_DAYS:
        yield Mistake("days", f"{days} is not from 1 to {LONGEST_DAYS}")


def _mistaken_now(now: datetime) -> Iterator[Mistake]:
    if now.tzinfo is None:
        yield Mistake("now", "has no time zone")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _general_name(name: str) -> x509.GeneralName:
    address = _address(name)
    return x509.IPAddress(address) if address else x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, *, issuer: x509.Name, days: int, now: datetime
) -> x509.CertificateBuilder:
    """What an authority's certificate and a server's have in common."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
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


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
