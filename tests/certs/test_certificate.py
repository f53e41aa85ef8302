"""What is read off certificates, good ones and others."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from certs import authority, certificate
from tests.notation import table
from tests.pairs import START, pair


def shown(*names: str) -> x509.Certificate:
    return certificate.first(pair(*names).cert_pem)


def bare() -> x509.Certificate:
    """A certificate that signs itself and says no name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bare")])
    since, until = START, START + timedelta(days=1)
    return x509.CertificateBuilder(name, name, key.public_key(), 1, since, until).sign(key, hashes.SHA256())


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
    assert certificate.names(bare()) == ()
    assert certificate.unnamed(bare(), ["bare"]) == ("bare",)


def test_it_rotates_when_two_thirds_of_its_life_are_over() -> None:
    one = certificate.first(pair(days=30).cert_pem)

    assert certificate.rotates(one) - START == pytest.approx(timedelta(days=20), abs=timedelta(minutes=5))


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
    signer = authority.authority(days=10, now=START)
    between = ec.generate_private_key(ec.SECP256R1())
    middle = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")])
    since, until = START, START + timedelta(days=1)
    link = x509.CertificateBuilder(
        signer.certificate.subject, middle, between.public_key(), 2, since, until
    ).sign(signer.key, hashes.SHA256())
    leaf = x509.CertificateBuilder(
        middle, middle, ec.generate_private_key(ec.SECP256R1()).public_key(), 3, since, until
    ).sign(between, hashes.SHA256())

    assert certificate.root([leaf, link], [signer.certificate]) == signer.certificate
    assert certificate.root([leaf], [signer.certificate]) is None


def test_one_that_signs_itself_is_its_own_root() -> None:
    own = bare()

    assert certificate.root([own], [own]) == own
