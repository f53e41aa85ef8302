"""What is issued, and that clients trust it for the right names only."""

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
from tests.worlds.notation import table

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SERVICE = "numalign-webhook.numalign.svc"


def issued(*names: str) -> authority.Pair:
    return authority.issue(names=names, days=30, now=NOW)


def shake_hands(pair: authority.Files, *, ca: str, name: str) -> None:
    """A TLS handshake in memory between a strict client and a server with this pair."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    client = ssl.create_default_context(cadata=ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    ]
    while ends:
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)


Good = tuple[authority.Pair, authority.Files]


@pytest.fixture
def good(tmp_path: Path) -> Good:
    pair = authority.issue(names=[SERVICE, "127.0.0.1", "::1"], days=1, now=datetime.now(UTC))
    return pair, authority.write(pair, tmp_path)


# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = 62, 64


@pytest.mark.parametrize("name", [SERVICE, "127.0.0.1", "::1"])
def test_a_strict_client_trusts_each_name(good: Good, name: str) -> None:
    pair, files = good
    shake_hands(files, ca=pair.ca_pem.decode(), name=name)


@pytest.mark.parametrize("name", ["other.numalign.svc", "127.0.0.2"])
def test_a_client_trusts_no_other_name(good: Good, name: str) -> None:
    pair, files = good
    with pytest.raises(ssl.SSLCertVerificationError) as raised:
        shake_hands(files, ca=pair.ca_pem.decode(), name=name)
    assert raised.value.verify_code in {HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH}


def test_a_client_of_another_authority_trusts_nothing(good: Good) -> None:
    other = authority.issue(names=[SERVICE], days=1, now=datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(good[1], ca=other.ca_pem.decode(), name=SERVICE)


def test_authorities_old_and_new_stand_together_in_one_bundle(good: Good) -> None:
    other = authority.issue(names=[SERVICE], days=1, now=datetime.now(UTC))
    for bundle in (other.ca_pem + good[0].ca_pem, good[0].ca_pem + other.ca_pem):
        shake_hands(good[1], ca=bundle.decode(), name=SERVICE)


def test_what_a_serving_certificate_says() -> None:
    pair = issued(SERVICE, "*.example.org", "10.0.0.1", "fd00::1")
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    ca = x509.load_pem_x509_certificate(pair.ca_pem)
    says = certificate.extensions
    names = says.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = says.get_extension_for_class(x509.KeyUsage)
    signer = says.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    ca_identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest

    assert names.get_values_for_type(x509.DNSName) == [SERVICE, "*.example.org"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ip_address("10.0.0.1"),
        ip_address("fd00::1"),
    ]
    assert says.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(says.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert (usage.critical, usage.value.digital_signature, usage.value.key_cert_sign) == (
        True, True, False,
    )  # fmt: skip
    assert signer == ca_identifier
    certificate.verify_directly_issued_by(ca)


def test_what_an_authority_says() -> None:
    ca = x509.load_pem_x509_certificate(issued(SERVICE).ca_pem)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage).value

    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (
        True, True, 0,
    )  # fmt: skip
    assert (usage.key_cert_sign, usage.digital_signature) == (True, False)
    ca.verify_directly_issued_by(ca)


def test_both_are_valid_from_a_little_before_now_for_the_days_asked() -> None:
    pair = issued(SERVICE)
    for pem in (pair.ca_pem, pair.cert_pem):
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.not_valid_before_utc == NOW - timedelta(minutes=5)
        assert certificate.not_valid_after_utc == NOW + timedelta(days=30)


def test_the_key_is_p256_and_new_and_belongs_to_the_certificate() -> None:
    pair, other = issued(SERVICE), issued(SERVICE)
    key = serialization.load_pem_private_key(pair.key_pem, password=None)

    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert x509.load_pem_x509_certificate(pair.cert_pem).public_key() == key.public_key()
    assert (pair.ca_pem == other.ca_pem, pair.key_pem == other.key_pem) == (False, False)


def test_a_pair_does_not_show_its_key() -> None:
    assert repr(issued(SERVICE)) == "Pair(...)"


LONG = ".".join(["a" * 63] * 4)
BAD: list[tuple[str, object, object, list[str]]] = [
    ("no names", [], 1, ["names: is empty: clients verify the name or address they call"]),
    ("one text", SERVICE, 1, [f"names: '{SERVICE}' is a string: pass a list of names"]),
    ("an empty name", [""], 1, ["names: '' is neither a DNS name nor an IP address"]),
    ("a port", ["a:443"], 1, ["names: 'a:443' is neither a DNS name nor an IP address"]),
    ("a star inside", ["a.*.b"], 1, ["names: 'a.*.b' is neither a DNS name nor an IP address"]),
    ("not ASCII", ["grüß.de"], 1, ["names: 'grüß.de' is neither a DNS name nor an IP address"]),
    ("a line break", ["a\n"], 1, ["names: 'a\\n' is neither a DNS name nor an IP address"]),
    ("too long", [LONG], 1, [f"names: '{LONG}' is neither a DNS name nor an IP address"]),
    ("a label too long", ["a" * 64], 1, [f"names: '{'a' * 64}' is neither a DNS name nor an IP address"]),
    ("no days", ["a"], 0, ["days: 0 is not from 1 to 3650"]),
    ("too many days", ["a"], 3651, ["days: 3651 is not from 1 to 3650"]),
    ("all at once", ["_", "a", "-"], -1,
     ["names: '_' is neither a DNS name nor an IP address",
      "names: '-' is neither a DNS name nor an IP address",
      "days: -1 is not from 1 to 3650"]),
]  # fmt: skip


@pytest.mark.parametrize(("names", "days", "expected"), table(BAD))
def test_bad_orders(names: list[str], days: int, expected: list[str]) -> None:
    with pytest.raises(authority.BadOrder) as caught:
        authority.issue(names=names, days=days, now=NOW)

    assert [str(mistake) for mistake in caught.value.mistakes] == expected


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(authority.BadOrder, match="now: has no time zone"):
        authority.issue(names=["a"], days=1, now=NOW.replace(tzinfo=None))


def test_files_are_written_with_the_key_for_its_owner_alone(tmp_path: Path) -> None:
    pair, folder = issued(SERVICE), tmp_path / "new" / "folder"
    authority.write(issued(SERVICE), folder).key.chmod(0o666)
    files = authority.write(pair, folder)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (files.ca, files.cert, files.key)]

    assert (files.ca.name, files.cert.name, files.key.name) == ("ca.crt", "tls.crt", "tls.key")
    assert (files.ca.read_bytes(), files.cert.read_bytes()) == (pair.ca_pem, pair.cert_pem)
    assert files.key.read_bytes() == pair.key_pem
    assert modes == [0o644, 0o644, 0o600]
    assert len(list(files.key.parent.iterdir())) == 3


def test_nothing_is_left_behind_when_a_file_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "tls.key").mkdir()
    with pytest.raises(IsADirectoryError):
        authority.write(issued(SERVICE), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["tls.key"]
