"""The Secret: its form, all that can be wrong with it, and that one of several writers wins."""

import base64
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from certs import certificate
from certs import secret as secrets
from certs.secret import BadSecret, PairState
from numalign.kube.errors import Conflict
from tests.unit.certs.conftest import Site
from tests.worlds.notation import table
from tests.worlds.pairs import PLACE, files, pair, secret

ONE, TWO, THREE = pair(), pair(), pair()
STATES = [
    ("settled", PairState(ONE)),
    ("all at once", PairState(ONE, TWO, (THREE.ca_pem,))),
]
Data = dict[str, Any]


@pytest.mark.parametrize("state", table(STATES))
def test_written_state_is_read_back(state: PairState) -> None:
    assert secrets.parse(secrets.render(state, namespace="n", name="s")) == state


def test_promotion_does_not_change_the_bundle() -> None:
    staged = PairState(ONE, TWO)
    promoted = PairState(TWO, None, (ONE.ca_pem,))

    assert staged.bundle == promoted.bundle == ONE.ca_pem + TWO.ca_pem
    # Each authority is in it once.
    assert PairState(ONE, ONE, (ONE.ca_pem,)).bundle == ONE.ca_pem


def test_new_secret_is_a_tls_secret_with_our_label() -> None:
    made: Data = secrets.render(PairState(ONE, TWO), namespace="n", name="s")

    labels = {"app.kubernetes.io/managed-by": "numalign"}
    assert made["metadata"] == {"namespace": "n", "name": "s", "labels": labels}
    assert made["type"] == "kubernetes.io/tls"
    assert sorted(made["data"]) == ["ca.crt", "next-tls.crt", "next-tls.key", "tls.crt", "tls.key"]
    assert base64.b64decode(made["data"]["ca.crt"]) == ONE.ca_pem + TWO.ca_pem


def test_replaced_secret_keeps_its_type_and_labels() -> None:
    metadata = {"namespace": "n", "name": "s", "resourceVersion": "7", "labels": {"team": "x"}}
    before = {"metadata": metadata, "type": "Opaque", "data": {"junk": "AA=="}}
    made: Data = secrets.render(PairState(ONE), namespace="n", name="s", before=before)

    assert made["metadata"]["resourceVersion"] == "7"
    assert made["metadata"]["labels"] == {"team": "x", "app.kubernetes.io/managed-by": "numalign"}
    assert (made["type"], "junk" in made["data"], metadata["labels"]) == ("Opaque", False, {"team": "x"})
    before = {"metadata": {"name": "s", "labels": None}}
    unlabelled: Data = secrets.render(PairState(ONE), namespace="n", name="s", before=before)
    assert unlabelled["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "numalign"}


def test_several_foreign_authorities_are_all_trusted() -> None:
    data = files(ONE) | {"ca.crt": TWO.ca_pem + ONE.ca_pem}

    assert secrets.of_files(data) == PairState(ONE, None, (TWO.ca_pem,))


def locked() -> bytes:
    key = load_pem_private_key(ONE.key_pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


def odd_curve() -> bytes:
    """A certificate whose key is on an unknown curve."""
    p256 = bytes.fromhex("06082a8648ce3d030107")
    changed = base64.encodebytes(DER.replace(p256, p256[:-1] + b"\x7f"))
    return b"-----BEGIN CERTIFICATE-----\n" + changed + b"-----END CERTIFICATE-----\n"


DER = certificate.first(ONE.cert_pem).public_bytes(Encoding.DER)
NO_CERTIFICATE = "contains no PEM certificate (-----BEGIN CERTIFICATE-----)"
NO_KEY = "contains no PEM private key (-----BEGIN PRIVATE KEY-----)"
UNSUPPORTED = "contains a certificate with an unsupported type of key"
UNSIGNED = "is not signed by any authority in ca.crt"
BAD: list[tuple[str, dict[str, bytes | None], list[str]]] = [
    ("nothing", {"ca.crt": None, "tls.crt": None, "tls.key": None},
     ["ca.crt: is missing", "tls.crt: is missing", "tls.key: is missing"]),
    ("no authority", {"ca.crt": None}, ["ca.crt: is missing"]),
    ("an empty certificate", {"tls.crt": b""}, ["tls.crt: is missing"]),
    ("garbage everywhere", {"ca.crt": b"a", "tls.crt": b"\x00", "tls.key": b"\xff"},
     [f"ca.crt: {NO_CERTIFICATE}", f"tls.crt: {NO_CERTIFICATE}", f"tls.key: {NO_KEY}"]),
    ("a certificate in DER", {"tls.crt": DER}, [f"tls.crt: {NO_CERTIFICATE}"]),
    ("a key on an unknown curve", {"tls.crt": odd_curve()}, [f"tls.crt: {UNSUPPORTED}"]),
    ("a locked key", {"tls.key": locked()},
     ["tls.key: is encrypted: use a private key without a passphrase"]),
    ("another key", {"tls.key": TWO.key_pem}, ["tls.key: does not match the certificate in tls.crt"]),
    ("another authority", {"ca.crt": TWO.ca_pem}, [f"tls.crt: {UNSIGNED}"]),
    ("half of a next pair", {"next-tls.crt": TWO.cert_pem}, ["next-tls.key: is missing"]),
    ("a next pair without its authority", {"next-tls.crt": TWO.cert_pem, "next-tls.key": TWO.key_pem},
     [f"next-tls.crt: {UNSIGNED}"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), table(BAD))
def test_bad_pair_names_every_mistake(change: dict[str, bytes | None], expected: list[str]) -> None:
    changed = {**files(ONE), **change}
    data = {key: value for key, value in changed.items() if value is not None}
    with pytest.raises(BadSecret) as of_files:
        secrets.of_files(data)
    with pytest.raises(BadSecret) as caught:
        secrets.parse(secret(data))

    assert [str(mistake) for mistake in of_files.value.mistakes] == expected
    assert [each.message for each in caught.value.mistakes] == [line.partition(": ")[2] for line in expected]


NUMBER = "data[ca.crt]: must be a string, not a number"
ODD: list[tuple[str, Data, list[str]]] = [
    ("not base64", {"tls.crt": "%%%"}, ["data[tls.crt]: is not base64"]),
    ("not ASCII", {"tls.crt": "ä"}, ["data[tls.crt]: is not base64"]),
    ("three at once", {"ca.crt": 7, "tls.crt": "%", "tls.key": ""},
     [NUMBER, "data[tls.crt]: is not base64", "data[tls.key]: is missing"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), table(ODD))
def test_bad_data_names_every_mistake(change: Data, expected: list[str]) -> None:
    made = secret(files(ONE))
    with pytest.raises(BadSecret) as caught:
        secrets.parse({**made, "data": {**made["data"], **change}})

    assert [str(mistake) for mistake in caught.value.mistakes] == expected
    for odd, place in ((None, "data[ca.crt]: is missing"), ([], "must be an object, not a list")):
        with pytest.raises(BadSecret, match=re.escape(place)):
            secrets.parse(odd)


@pytest.mark.parametrize("there", [False, True], ids=["creation", "change"])
async def test_second_write_after_one_read_conflicts(site: Site, *, there: bool) -> None:
    if there:
        site.store(files(ONE))
    read = await secrets.read(site.client, PLACE)
    written = await secrets.write(site.client, read, PairState(TWO))

    assert (written.state, written.ours) == (PairState(TWO), True)
    with pytest.raises(Conflict):
        await secrets.write(site.client, read, PairState(THREE))


async def test_answer_that_is_no_object_has_no_state(site: Site) -> None:
    site.api.oddities[PLACE.path] = b"[]"
    read = await secrets.read(site.client, PLACE)

    assert (read.state, read.ours, read.lost) == (None, False, False)
    assert read.mistakes
