"""The Secret: its form, everything that can be wrong with it, and how it is read and written by one."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
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
from numalign.kube.client import Api
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from tests.worlds.notation import table
from tests.worlds.pairs import NAMES, PLACE, START, files, pair, secret
from tools.clusters.fake_api import FakeApi

ONE, TWO, THREE = pair(), pair(), pair()
STATES = [
    ("at rest", PairState(ONE)),
    ("staged", PairState(ONE, TWO)),
    ("promoted", PairState(ONE, None, (TWO.ca_pem,))),
    ("all at once", PairState(ONE, TWO, (THREE.ca_pem,))),
]
Data = dict[str, Any]


@pytest.mark.parametrize("held", table(STATES))
def test_what_is_written_is_read_again(held: PairState) -> None:
    assert secrets.parse(secrets.render(held, namespace="n", name="s")) == held


def test_the_bundle_is_the_same_before_and_after_a_promotion() -> None:
    staged = PairState(ONE, TWO)
    promoted = PairState(TWO, None, (ONE.ca_pem,))

    assert staged.bundle == promoted.bundle == ONE.ca_pem + TWO.ca_pem


def test_an_authority_stands_in_the_bundle_once() -> None:
    assert PairState(ONE, ONE, (ONE.ca_pem,)).bundle == ONE.ca_pem


def test_a_new_secret_is_a_tls_secret_with_our_label() -> None:
    made: Data = secrets.render(PairState(ONE, TWO), namespace="n", name="s")

    assert made["metadata"] == {
        "namespace": "n",
        "name": "s",
        "labels": {"app.kubernetes.io/managed-by": "numalign"},
    }
    assert made["type"] == "kubernetes.io/tls"
    assert sorted(made["data"]) == ["ca.crt", "next-tls.crt", "next-tls.key", "tls.crt", "tls.key"]
    assert base64.b64decode(made["data"]["ca.crt"]) == ONE.ca_pem + TWO.ca_pem


def test_a_secret_in_place_of_another_keeps_its_type_and_what_else_is_said_of_it() -> None:
    metadata = {"namespace": "n", "name": "s", "resourceVersion": "7", "labels": {"team": "x"}}
    before = {"metadata": metadata, "type": "Opaque", "data": {"junk": "AA=="}}
    made: Data = secrets.render(PairState(ONE), namespace="n", name="s", before=before)

    assert made["metadata"]["resourceVersion"] == "7"
    assert made["metadata"]["labels"] == {"team": "x", "app.kubernetes.io/managed-by": "numalign"}
    assert made["type"] == "Opaque"
    assert "junk" not in made["data"]
    assert metadata["labels"] == {"team": "x"}


def test_a_secret_whose_labels_are_null_gets_ours() -> None:
    before = {"metadata": {"name": "s", "labels": None}}
    made: Data = secrets.render(PairState(ONE), namespace="n", name="s", before=before)

    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "numalign"}


def test_more_than_one_authority_of_somebody_else_are_all_trusted() -> None:
    data = files(ONE) | {"ca.crt": TWO.ca_pem + ONE.ca_pem}

    assert secrets.of_files(data) == PairState(ONE, None, (TWO.ca_pem,))


def locked() -> bytes:
    key = load_pem_private_key(ONE.key_pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


def odd_curve() -> bytes:
    """A certificate whose key lies on a curve that nobody knows."""
    der = certificate.first(ONE.cert_pem).public_bytes(Encoding.DER)
    p256 = bytes.fromhex("06082a8648ce3d030107")
    changed = base64.encodebytes(der.replace(p256, p256[:-1] + b"\x7f"))
    return b"-----BEGIN CERTIFICATE-----\n" + changed + b"-----END CERTIFICATE-----\n"


NO_CERTIFICATE = "contains no PEM certificate (-----BEGIN CERTIFICATE-----)"
NO_KEY = "contains no PEM private key (-----BEGIN PRIVATE KEY-----)"
STRANGE = "contains a certificate with an unsupported type of key"
STRANGER = "is not signed by any authority in ca.crt"
BAD: list[tuple[str, dict[str, bytes | None], list[str]]] = [
    ("nothing at all", {"ca.crt": None, "tls.crt": None, "tls.key": None},
     ["ca.crt: is missing", "tls.crt: is missing", "tls.key: is missing"]),
    ("no authority", {"ca.crt": None}, ["ca.crt: is missing"]),
    ("an empty certificate", {"tls.crt": b""}, ["tls.crt: is missing"]),
    ("garbage everywhere", {"ca.crt": b"a", "tls.crt": b"\x00", "tls.key": b"\xff"},
     [f"ca.crt: {NO_CERTIFICATE}", f"tls.crt: {NO_CERTIFICATE}", f"tls.key: {NO_KEY}"]),
    ("a certificate that is cut off", {"tls.crt": ONE.cert_pem[:200]}, [f"tls.crt: {NO_CERTIFICATE}"]),
    ("a key that is cut off", {"tls.key": ONE.key_pem[:90]}, [f"tls.key: {NO_KEY}"]),
    ("a key on a strange curve", {"tls.crt": odd_curve()}, [f"tls.crt: {STRANGE}"]),
    ("certificate and key exchanged", {"tls.crt": ONE.key_pem, "tls.key": ONE.cert_pem},
     [f"tls.crt: {NO_CERTIFICATE}", f"tls.key: {NO_KEY}"]),
    ("a locked key", {"tls.key": locked()},
     ["tls.key: is encrypted: use a private key without a passphrase"]),
    ("another key", {"tls.key": TWO.key_pem}, ["tls.key: does not match the certificate in tls.crt"]),
    ("another authority", {"ca.crt": TWO.ca_pem}, [f"tls.crt: {STRANGER}"]),
    ("another certificate", {"tls.crt": TWO.cert_pem},
     ["tls.key: does not match the certificate in tls.crt", f"tls.crt: {STRANGER}"]),
    ("half of a next pair", {"next-tls.crt": TWO.cert_pem}, ["next-tls.key: is missing"]),
    ("a next pair that nobody vouches for", {"next-tls.crt": TWO.cert_pem, "next-tls.key": TWO.key_pem},
     [f"next-tls.crt: {STRANGER}"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), table(BAD))
def test_what_is_no_pair(change: dict[str, bytes | None], expected: list[str]) -> None:
    changed = {**files(ONE), **change}
    data = {key: value for key, value in changed.items() if value is not None}
    with pytest.raises(BadSecret) as of_files:
        secrets.of_files(data)
    with pytest.raises(BadSecret) as read:
        secrets.parse(secret(data))

    assert [str(mistake) for mistake in of_files.value.mistakes] == expected
    assert [mistake.message for mistake in read.value.mistakes] == [
        line.partition(": ")[2] for line in expected
    ]


def broken(change: Callable[[Data], object]) -> Data:
    made = secret(files(ONE))
    change(made)
    return made


ODD: list[tuple[str, Callable[[Data], object], list[str]]] = [
    ("not base64", lambda made: made["data"].update({"tls.crt": "%%%"}), ["data[tls.crt]: is not base64"]),
    ("base64 without its end", lambda made: made["data"].update({"tls.key": "QQ"}),
     ["data[tls.key]: is not base64"]),
    ("not ASCII", lambda made: made["data"].update({"tls.crt": "ä"}), ["data[tls.crt]: is not base64"]),
    ("a number", lambda made: made["data"].update({"ca.crt": 7}),
     ["data[ca.crt]: must be a string, not a number"]),
    ("three at once", lambda made: made["data"].update({"ca.crt": 7, "tls.crt": "%", "tls.key": ""}),
     ["data[ca.crt]: must be a string, not a number", "data[tls.crt]: is not base64",
      "data[tls.key]: is missing"]),
    ("data that is a list", lambda made: made.update(data=[]),
     ["data: must be an object, not a list", "data[ca.crt]: is missing", "data[tls.crt]: is missing",
      "data[tls.key]: is missing"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), table(ODD))
def test_what_is_no_secret(change: Callable[[Data], object], expected: list[str]) -> None:
    with pytest.raises(BadSecret) as caught:
        secrets.parse(broken(change))

    assert [str(mistake) for mistake in caught.value.mistakes] == expected


@pytest.mark.parametrize("nothing", [None, "text", 7, []], ids=["null", "text", "number", "list"])
def test_what_is_no_object(nothing: object) -> None:
    with pytest.raises(BadSecret):
        secrets.parse(nothing)


def test_a_certificate_in_der_stands_in_no_secret() -> None:
    der = certificate.first(ONE.cert_pem).public_bytes(Encoding.DER)
    with pytest.raises(BadSecret, match=r"tls\.crt: contains no PEM certificate"):
        secrets.of_files(files(replace(ONE, cert_pem=der)))


def test_when_a_pair_must_not_be_served() -> None:
    early, late = START - timedelta(minutes=6), START + timedelta(days=30)

    assert [[str(each) for each in secrets.untimely(ONE, now=now)] for now in (START, early, late)] == [
        [],
        ["tls.crt: is not valid before 2026-05-01T11:55:00+00:00"],
        ["tls.crt: expired at 2026-05-31T12:00:00+00:00"],
    ]


def test_names_that_a_pair_is_not_for() -> None:
    assert secrets.misnamed(ONE, names=NAMES) == ()
    assert [str(each) for each in secrets.misnamed(pair("a", "b"), names=["b", "c"])] == [
        "tls.crt: is not valid for c: its names are a, b"
    ]


# In the cluster.

HELD = PairState(pair())


async def test_none_is_there(client: Api) -> None:
    found = await secrets.read(client, PLACE)

    assert (found.raw, found.state, found.mistakes, found.lost, found.ours) == (None, None, (), True, False)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody else's"])
async def test_it_is_told_whose_it_is(cluster: FakeApi, client: Api, *, ours: bool) -> None:
    cluster.put(secret(files(HELD.current), ours=ours))
    found = await secrets.read(client, PLACE)

    assert (found.state, found.ours, found.lost) == (HELD, ours, False)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody else's"])
async def test_a_broken_one_is_lost_if_it_is_ours(cluster: FakeApi, client: Api, *, ours: bool) -> None:
    cluster.put(secret({**files(HELD.current), "tls.key": b"x"}, ours=ours))
    found = await secrets.read(client, PLACE)

    assert (found.state, found.lost) == (None, ours)
    assert [str(each) for each in found.mistakes] == [
        "data[tls.key]: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"
    ]


async def test_a_place_kept_free_is_no_mistake(cluster: FakeApi, client: Api) -> None:
    kept_free = secret({})
    del kept_free["data"]
    cluster.put(kept_free)
    found = await secrets.read(client, PLACE)

    assert (found.lost, found.mistakes) == (True, ())


async def test_one_wins_who_makes_it(client: Api) -> None:
    found = await secrets.read(client, PLACE)
    kept = await secrets.write(client, found, HELD)

    assert (kept.state, kept.ours) == (HELD, True)
    with pytest.raises(Conflict):
        await secrets.write(client, found, PairState(pair()))


async def test_one_wins_who_changes_it(cluster: FakeApi, client: Api) -> None:
    cluster.put(secret(files(HELD.current)))
    found = await secrets.read(client, PLACE)
    following = PairState(HELD.current, pair())

    assert (await secrets.write(client, found, following)).state == following
    with pytest.raises(Conflict):
        await secrets.write(client, found, PairState(pair()))


async def test_what_the_api_server_refuses_is_raised(cluster: FakeApi, client: Api) -> None:
    cluster.failures[PLACE.path] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden, match="not allowed to read Secret numalign-system/numalign-webhook-tls"):
        await secrets.read(client, PLACE)


async def test_an_answer_that_is_no_object_holds_nothing(cluster: FakeApi, client: Api) -> None:
    cluster.oddities[PLACE.path] = b"[]"
    found = await secrets.read(client, PLACE)

    assert (found.state, found.ours, found.lost) == (None, False, False)
    assert found.mistakes


async def test_an_answer_that_is_no_json_is_raised(cluster: FakeApi, client: Api) -> None:
    cluster.oddities[PLACE.path] = b"<html>"

    with pytest.raises(Unreachable, match="is invalid"):
        await secrets.read(client, PLACE)
