"""Certificates for this machine: serving pairs, and self-signed ones, which are their own authorities."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs import authority


def certificate(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    *,
    since: datetime,
    until: datetime,
    names: Mapping[x509.ObjectIdentifier, str] | None = None,
) -> bytes:
    # Clients look up an authority by its name, so each needs a unique one.
    names = names or {NameOID.COMMON_NAME: str(uuid.uuid4())}
    name = x509.Name([x509.NameAttribute(*each) for each in names.items()])
    served = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName(served), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def pair(folder: Path, *names: str) -> authority.Files:
    """Write a serving pair for this machine and other names."""
    issued = authority.issue(names=["127.0.0.1", *names], days=7, now=datetime.now(UTC))
    return authority.write(issued, folder)


def key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
