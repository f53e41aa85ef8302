"""
What a certificate contains.

Certificates in a cluster are also written by cert-manager, by hand, or by tools with bugs. So nothing here
fails because of one: what cannot be read counts as absent, and callers find that a name or a signature that
they need is missing.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
)


def first(pem: bytes) -> x509.Certificate:
    """Return the first certificate of a PEM file that is known to be valid."""
    return x509.load_pem_x509_certificates(pem)[0]


def as_pem(certificate: x509.Certificate) -> bytes:
    """Return the certificate as written to files, always with the same bytes."""
    return certificate.public_bytes(Encoding.PEM)


def names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and addresses that it is valid for; none if they cannot be read."""
    try:
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE:
        return ()
    addresses = listed.get_values_for_type(x509.IPAddress)
    return (*listed.get_values_for_type(x509.DNSName), *map(str, addresses))


def unnamed(certificate: x509.Certificate, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return those of the wanted names for which clients would not accept it."""
    listed = {_plain(name) for name in names(certificate)}
    missing = []
    for name in wanted:
        accepted = {_plain(name)}
        if not address(name):
            # A wildcard stands for the first label.
            accepted.add(f"*.{name.lower().partition('.')[2]}")
        if listed.isdisjoint(accepted):
            missing.append(name)
    return tuple(missing)


def address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a name as an IP address; None if it is not one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def rotates(certificate: x509.Certificate) -> datetime:
    """Return when two thirds of its validity are over."""
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return since + (until - since) * 2 / 3


def root(
    chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """Return the authority that vouches for a serving certificate, through the others of its chain."""
    for link, above in zip(chain, (*chain[1:], None), strict=True):
        for authority in authorities:
            if _issued(link, authority):
                return authority
        if above is None or not _issued(link, above):
            return None
    return None


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, *_UNREADABLE):
        return False
    return True


def _plain(name: str) -> str:
    """Return a name or an address in the form in which it is compared."""
    return str(address(name) or name.lower())
