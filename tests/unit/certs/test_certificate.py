"""What is read off certificates, good ones and others."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from certs import certificate
from tests.worlds.notation import table
from tests.worlds.pairs import START, pair


def shown(*names: str) -> x509.Certificate:
    return certificate.first(pair(*names).cert_pem)


def common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


NAMED: list[tuple[str, list[str], list[str], list[str]]] = [
    ("the very name", ["a.b.svc"], ["a.b.svc"], []),
    ("another case", ["A.b.svc"], ["a.B.svc"], []),
    ("a star for the first label", ["*.b.svc"], ["a.b.svc"], []),
    ("a star for one label only", ["*.svc"], ["a.b.svc"], ["a.b.svc"]),
    ("a star is no label of its own", ["*.b.svc"], ["b.svc"], ["b.svc"]),
    ("an address", ["10.0.0.1"], ["10.0.0.1"], []),
    ("an address in another spelling", ["fd00::1"], ["fd00:0::0001"], []),
    ("a star is for no address", ["*.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]),
    ("all that are missing", ["a"], ["b", "a", "c"], ["b", "c"]),
]


@pytest.mark.parametrize(("there", "wanted", "missing"), table(NAMED))
def test_which_names_clients_would_not_accept(
    there: list[str], wanted: list[str], missing: list[str]
) -> None:
    assert list(certificate.unnamed(shown(*there), wanted)) == missing


def test_a_certificate_without_names_has_none() -> None:
    authority = certificate.first(pair().ca_pem)

    assert certificate.names(authority) == ()
    assert certificate.unnamed(authority, ["numalign authority"]) == ("numalign authority",)


def test_it_rotates_when_two_thirds_of_its_life_are_over() -> None:
    one = certificate.first(pair(days=30).cert_pem)

    assert abs(certificate.rotates(one) - START - timedelta(days=20)) < timedelta(minutes=5)


def test_the_root_is_found_through_what_stands_between() -> None:
    made = pair()
    leaf, root = (certificate.first(pem) for pem in (made.cert_pem, made.ca_pem))
    stranger = certificate.first(pair().ca_pem)

    assert certificate.root([leaf], [stranger, root]) == root
    assert certificate.root([leaf, root], [root]) == root
    assert certificate.root([leaf], [leaf]) is None
    assert certificate.root([leaf, stranger], [stranger]) is None
    assert certificate.root([leaf], []) is None


def test_an_intermediate_that_vouches_counts_only_if_it_is_vouched_for() -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    since, until = START, START + timedelta(days=1)
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

    assert certificate.root([root], [root]) == root
    assert certificate.root([leaf, link], [root]) == root
    assert certificate.root([leaf], [root]) is None
