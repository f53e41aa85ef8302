"""The pair that is shown: what is refused, and how it changes under open connections."""

import re
import ssl
from datetime import UTC, datetime, timedelta
from errno import EISDIR, ENOENT
from os import strerror
from pathlib import Path, PosixPath

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from prometheus_client import CollectorRegistry

from numalign.runtime import tls
from numalign.runtime.tls import PairFiles
from tests.worlds.http_sites import Mint, Trust
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table

EXPIRY = "numalign_tls_certificate_expiry_timestamp_seconds"
RELOADS = "numalign_tls_reloads_total"


def now() -> datetime:
    return datetime.now(UTC)


def refusal(pair: PairFiles) -> list[str]:
    with pytest.raises(tls.BadPair) as caught:
        tls.load(pair, now=now())
    return [str(mistake).removeprefix(f"{pair.cert.parent}/") for mistake in caught.value.mistakes]


@pytest.mark.parametrize("behind", [0, 1], ids=["alone", "in front of a chain"])
def test_a_good_pair_is_loaded(mint: Mint, behind: int) -> None:
    pair = mint.pair()
    certificate = x509.load_pem_x509_certificate(pair.cert.read_bytes())
    pair.cert.write_bytes(pair.cert.read_bytes() + mint.pair().cert.read_bytes() * behind)
    loaded = tls.load(pair, now=now())
    assert loaded.expires == certificate.not_valid_after_utc
    assert loaded.serial == f"{certificate.serial_number:x}"


NO_CERTIFICATE = "tls.crt: contains no PEM certificate (-----BEGIN CERTIFICATE-----)"
NO_KEY = "tls.key: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"
EMPTY_PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(("cert", "key", "expected"), table([
    ("an empty key", None, b"", [NO_KEY]),
    ("garbage in both", b"\x00garbage", b"\xff", [NO_CERTIFICATE, NO_KEY]),
    ("PEM around garbage", EMPTY_PEM, None, [NO_CERTIFICATE]),
    ("a key that stops half-way", None, b"-----BEGIN PRIVATE KEY-----\nMIGH", [NO_KEY]),
]))  # fmt: skip
def test_what_is_no_pair(mint: Mint, cert: bytes | None, key: bytes | None, expected: list[str]) -> None:
    pair = mint.pair()
    if cert is not None:
        pair.cert.write_bytes(cert)
    if key is not None:
        pair.key.write_bytes(key)
    assert refusal(pair) == expected


def test_files_that_cannot_be_read_or_are_swapped(mint: Mint) -> None:
    pair = mint.pair()
    assert refusal(PairFiles(pair.key, pair.cert)) == [
        NO_CERTIFICATE.replace("tls.crt", "tls.key"),
        NO_KEY.replace("tls.key", "tls.crt"),
    ]
    pair.cert.unlink()
    pair.key.unlink()
    pair.key.mkdir()
    assert refusal(pair) == [
        f"tls.crt: cannot be read: {strerror(ENOENT)}",
        f"tls.key: cannot be read: {strerror(EISDIR)}",
    ]


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_key_of_another_certificate(mint: Mint, kind: str) -> None:
    pair = mint.pair()
    mixed = PairFiles(pair.cert, mint.pair(kind).key)
    assert refusal(mixed) == [f"{mixed.key}: does not match the certificate in {mixed.cert}"]


def test_a_key_behind_a_passphrase(mint: Mint) -> None:
    pair = mint.pair()
    key = load_pem_private_key(pair.key.read_bytes(), password=None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    pair.key.write_bytes(locked)
    assert refusal(pair) == ["tls.key: is encrypted: use a private key without a passphrase"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [(2020, "expired at 2021-01-01T00:00:00+00:00"), (2090, "is not valid before 2090-01-01T00:00:00+00:00")],
)
def test_a_certificate_of_another_time(mint: Mint, since: int, expected: str) -> None:
    pair = mint.pair(since=datetime(since, 1, 1, tzinfo=UTC), until=datetime(since + 1, 1, 1, tzinfo=UTC))
    assert refusal(pair) == [f"tls.crt: {expected}"]
    # A mismatch is listed with it.
    assert len(refusal(PairFiles(pair.cert, mint.pair().key))) == 2


def test_key_on_an_unknown_curve(mint: Mint) -> None:
    pair = mint.pair()
    p256 = bytes.fromhex("06082a8648ce3d030107")
    strange = der(pair.cert).replace(p256, p256[:-1] + b"\x7f")
    pair.cert.write_text(ssl.DER_cert_to_PEM_cert(strange))
    assert refusal(pair) == ["tls.crt: contains a certificate with an unsupported type of key"]


def test_a_bad_authority_is_named(mint: Mint, tmp_path: Path) -> None:
    pair, path = mint.pair(), tmp_path / "ca.crt"
    for said in (f"cannot be read: {strerror(ENOENT)}", NO_CERTIFICATE.removeprefix("tls.crt: ")):
        with pytest.raises(tls.BadPair, match=re.escape(f"{path}: {said}")):
            tls.load(pair, now=now(), client_ca=path)
        path.write_text("")


def test_a_key_too_weak_for_the_machine(mint: Mint) -> None:
    [line] = refusal(mint.pair("weak"))
    assert line.startswith("tls.crt: cannot be served: ")


class Restless(PosixPath):
    """A file that is written again after every look at it."""

    def read_bytes(self) -> bytes:
        content = super().read_bytes()
        self.write_bytes(content + b"\n")
        return content


def test_files_that_change_while_they_are_read(mint: Mint) -> None:
    pair = mint.pair()
    assert refusal(PairFiles(Restless(pair.cert), pair.key)) == [
        "tls.crt: or its key changed while they were read"
    ]


class Meeting:
    """A client and a server in memory, so that a handshake needs no network."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, *, name: str | None) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(down, up, server_hostname=name)
        self.server = server.wrap_bio(up, down, server_side=True)

    def shake(self) -> bytes:
        ends = [self.client, self.server]
        while ends:
            end = ends.pop(0)
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                ends.append(end)
        return self.client.getpeercert(binary_form=True) or b""

    def talk(self, text: bytes) -> bytes:
        self.client.write(text)
        return self.server.read(len(text))


def der(cert: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(cert.read_text())


@pytest.fixture
def keeper(mint: Mint, journal: RecordedLog, registry: CollectorRegistry) -> tls.Keeper:
    return tls.Keeper(mint.pair(), log=journal.log, registry=registry)


def test_a_client_that_names_no_server_is_shown_the_pair(keeper: tls.Keeper, trusting: Trust) -> None:
    client = trusting(keeper.files.cert)
    client.check_hostname = False
    assert Meeting(keeper.context, client, name=None).shake() == der(keeper.files.cert)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_http_1_1_is_spoken_over_tls(keeper: tls.Keeper, trusting: Trust, version: ssl.TLSVersion) -> None:
    client = trusting(keeper.files.cert)
    client.maximum_version = client.minimum_version = version
    client.set_alpn_protocols(["h2", "http/1.1"])
    meeting = Meeting(keeper.context, client, name="localhost")
    meeting.shake()
    assert meeting.client.selected_alpn_protocol() == "http/1.1"
    assert meeting.client.version() == version.name.replace("_", ".")


def test_nothing_older_than_tls_1_2_is_spoken(keeper: tls.Keeper) -> None:
    contexts = (keeper.context, keeper.current.context)
    assert {context.minimum_version for context in contexts} == {ssl.TLSVersion.TLSv1_2}


def test_a_bad_new_pair_is_refused_and_the_old_one_stays(
    keeper: tls.Keeper, mint: Mint, journal: RecordedLog, registry: CollectorRegistry, trusting: Trust
) -> None:
    old = der(keeper.files.cert)
    client = trusting(keeper.files.cert)
    before = registry.get_sample_value(EXPIRY)
    keeper.files.cert.write_bytes(mint.pair("rsa").cert.read_bytes())
    assert not keeper.reload()
    assert Meeting(keeper.context, client, name="localhost").shake() == old
    assert registry.get_sample_value(RELOADS, {"result": "refused"}) == 1
    assert registry.get_sample_value(EXPIRY) == before
    (line,) = journal.of("tls.reload_failed")
    assert line["errors"] == [f"{keeper.files.key}: does not match the certificate in {keeper.files.cert}"]


def test_a_good_new_pair_is_counted_and_logged(
    keeper: tls.Keeper, mint: Mint, journal: RecordedLog, registry: CollectorRegistry
) -> None:
    until = (now() + timedelta(days=7)).replace(microsecond=0)
    mint.renew(keeper.files, mint.pair(until=until))
    assert keeper.reload()
    assert registry.get_sample_value(RELOADS, {"result": "loaded"}) == 1
    assert registry.get_sample_value(EXPIRY) == until.timestamp()
    assert [line["serial"] for line in journal.of("tls.loaded")] == [keeper.current.serial]


def test_expired_pair_is_a_problem_until_the_clock_is_right(
    mint: Mint, journal: RecordedLog, registry: CollectorRegistry
) -> None:
    times = [now()]
    until = (times[0] + timedelta(hours=1)).replace(microsecond=0)
    keeper = tls.Keeper(mint.pair(until=until), log=journal.log, registry=registry, clock=lambda: times[-1])
    troubles = []
    for time in (times[0], until, times[0], times[0] - timedelta(days=30)):
        times.append(time)
        troubles.append(keeper.trouble())
    assert troubles == [None, f"the certificate expired at {until.isoformat()}", None, None]
