"""What is read off certificates, good ones and others."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from certs import certificate
from tests.worlds.clock import NOON
from tests.worlds.notation import table
from tests.worlds.pairs import pair

NAMED: list[tuple[str, list[str], list[str], list[str]]] = [
    ("another case", ["A.b.svc"], ["a.B.svc"], []),
    ("a star for the first label", ["*.b.svc"], ["a.b.svc"], []),
    ("a star for one label only", ["*.svc"], ["a.b.svc"], ["a.b.svc"]),
    ("an address", ["10.0.0.1"], ["10.0.0.1"], []),
    ("an address in another spelling", ["fd00::1"], ["fd00:0::0001"], []),
    ("a star is for no address", ["*.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]),
    ("all that are missing", ["a"], ["b", "a", "c"], ["b", "c"]),
]


@pytest.mark.parametrize(("names", "wanted", "missing"), table(NAMED))
def test_names_that_clients_would_not_accept(names: list[str], wanted: list[str], missing: list[str]) -> None:
    assert list(certificate.unnamed(certificate.first(pair(*names).cert_pem), wanted)) == missing


def test_certificate_without_names_has_none() -> None:
    authority = certificate.first(pair().ca_pem)

    assert certificate.names(authority) == ()
    assert certificate.unnamed(authority, ["numalign authority"]) == ("numalign authority",)


def test_rotation_begins_after_two_thirds_of_its_life() -> None:
    one = certificate.first(pair(days=30).cert_pem)

    assert abs(certificate.rotates(one) - NOON - timedelta(days=20)) < timedelta(minutes=5)


def common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def test_root_is_searched_through_intermediates() -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    since, until = NOON, NOON + timedelta(days=1)
    root, link, leaf = (
        x509.CertificateBuilder(common(issuer), common(subject), key.public_key(), 1, since, until).sign(
            signer, hashes.SHA256()
        )
        for issuer, subject, key, signer in (
            ("root", "root", keys[0], keys[0]),
            ("root", "middle", keys[1], keys[0]),
            ("middle", "leaf", keys[2], keys[1]),
        )
    )
    stranger = certificate.first(pair().ca_pem)

    found = [([root], [root]), ([leaf, link], [root]), ([link], [stranger, root]), ([link, root], [root])]
    none = [([leaf], [root]), ([link], [link]), ([link, stranger], [stranger]), ([link], [])]
    assert [certificate.root(chain, roots) for chain, roots in found] == [root] * 4
    assert [certificate.root(chain, roots) for chain, roots in none] == [None] * 4
