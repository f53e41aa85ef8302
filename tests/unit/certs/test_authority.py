"""Certificates that are issued, and that clients trust them for the right names only."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import authority
from tests.worlds.clock import NOON
from tests.worlds.notation import table

SERVICE = "numalign-webhook.numalign.svc"


def issued(*names: str) -> authority.Pair:
    return authority.issue(names=names, days=30, now=NOON)


def shake_hands(pair: authority.Files, *, ca: bytes, name: str) -> None:
    """A TLS handshake in memory between a strict client and a server with this pair."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    client = ssl.create_default_context(cadata=ca.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    while ends:
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)


# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = 62, 64


def test_strict_client_trusts_each_name_and_no_other(tmp_path: Path) -> None:
    names = [SERVICE, "127.0.0.1", "::1"]
    pair, other = (authority.issue(names=names, days=1, now=datetime.now(UTC)) for _ in range(2))
    files = authority.write(pair, tmp_path)

    for ca in (pair.ca_pem, other.ca_pem + pair.ca_pem, pair.ca_pem + other.ca_pem):
        for name in names:
            shake_hands(files, ca=ca, name=name)
    for name in ("other.numalign.svc", "127.0.0.2"):
        with pytest.raises(ssl.SSLCertVerificationError) as raised:
            shake_hands(files, ca=pair.ca_pem, name=name)
        assert raised.value.verify_code in {HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH}
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(files, ca=other.ca_pem, name=SERVICE)


def test_fields_of_a_serving_certificate_and_its_ca() -> None:
    pair, other = (issued(SERVICE, "*.example.org", "10.0.0.1", "fd00::1") for _ in range(2))
    ca, certificate = map(x509.load_pem_x509_certificate, (pair.ca_pem, pair.cert_pem))
    get, of_ca = (each.extensions.get_extension_for_class for each in (certificate, ca))
    names, usage = get(x509.SubjectAlternativeName).value, get(x509.KeyUsage)
    limits = of_ca(x509.BasicConstraints)
    key = serialization.load_pem_private_key(pair.key_pem, password=None)

    assert names.get_values_for_type(x509.DNSName) == [SERVICE, "*.example.org"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("10.0.0.1"), ip_address("fd00::1")]
    assert get(x509.BasicConstraints).value.ca is False
    assert list(get(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert (usage.critical, usage.value.digital_signature, usage.value.key_cert_sign) == (True, True, False)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
    assert of_ca(x509.KeyUsage).value.key_cert_sign
    assert not of_ca(x509.KeyUsage).value.digital_signature
    identifier = of_ca(x509.SubjectKeyIdentifier).value.digest
    assert get(x509.AuthorityKeyIdentifier).value.key_identifier == identifier
    for each in (ca, certificate):
        each.verify_directly_issued_by(ca)
        assert each.not_valid_before_utc == NOON - timedelta(minutes=5)
        assert each.not_valid_after_utc == NOON + timedelta(days=30)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert certificate.public_key() == key.public_key()
    # Each pair has keys of its own, and shows none.
    assert (pair.ca_pem == other.ca_pem, pair.key_pem == other.key_pem) == (False, False)
    assert repr(pair) == "Pair(...)"


def no_name(name: str) -> str:
    return f"names: {name!r} is neither a DNS name nor an IP address"


LONG = ".".join(["a" * 63] * 4)
BAD: list[tuple[str, object, object, list[str]]] = [
    ("no names", [], 1, ["names: is empty: clients verify the name or address they call"]),
    ("one text", SERVICE, 1, [f"names: '{SERVICE}' is a string: pass a list of names"]),
    *((text, [text], 1, [no_name(text)]) for text in ("", "a:443", "a.*.b", "ü.de", "a\n", LONG, "a" * 64)),
    ("no days", ["a"], 0, ["days: 0 is not from 1 to 3650"]),
    ("too many days", ["a"], 3651, ["days: 3651 is not from 1 to 3650"]),
    ("all at once", ["_", "a", "-"], -1, [no_name("_"), no_name("-"), "days: -1 is not from 1 to 3650"]),
]  # fmt: skip


@pytest.mark.parametrize(("names", "days", "expected"), table(BAD))
def test_bad_order_names_every_mistake(names: list[str], days: int, expected: list[str]) -> None:
    with pytest.raises(authority.BadOrder) as caught:
        authority.issue(names=names, days=days, now=NOON)

    assert [str(mistake) for mistake in caught.value.mistakes] == expected
    with pytest.raises(authority.BadOrder, match="now: has no time zone"):
        authority.issue(names=["a"], days=1, now=NOON.replace(tzinfo=None))


def test_files_are_written_with_the_key_for_its_owner(tmp_path: Path) -> None:
    pair, folder = issued(SERVICE), tmp_path / "new" / "folder"
    authority.write(issued(SERVICE), folder).key.chmod(0o666)
    files = authority.write(pair, folder)

    written = {path.name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}
    assert written == {
        "ca.crt": (pair.ca_pem, 0o644),
        "tls.crt": (pair.cert_pem, 0o644),
        "tls.key": (pair.key_pem, 0o600),
    }
    assert {files.ca.name, files.cert.name, files.key.name} == written.keys()


def test_file_that_cannot_be_replaced_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "tls.key").mkdir()
    with pytest.raises(IsADirectoryError):
        authority.write(issued(SERVICE), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["tls.key"]
