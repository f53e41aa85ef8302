"""What is shown of a pair."""

from datetime import timedelta

import pytest

from certs import certificate, inspection
from certs.bundle import WebhookConfiguration
from certs.inspection import Report
from certs.secret import PairState
from numalign.kube.errors import NotFound
from numalign.model.errors import Mistake
from tests.worlds.pairs import MUTATING, NAMES, START, VALIDATING, configuration, pair

OLD, NEXT = pair(), pair(days=60)
HELD = PairState(OLD, NEXT, (pair().ca_pem,))


def test_a_state_is_shown_with_what_is_served_first() -> None:
    shown = inspection.of_state(HELD, ours=True)

    assert [each.role for each in shown] == ["served", "next", "retired authority"]
    assert [each.rotates is not None for each in shown] == [True, False, False]
    assert inspection.of_state(HELD, ours=False)[0].rotates is None


def test_a_certificate_for_people() -> None:
    (shown,) = inspection.of_state(PairState(OLD), ours=True)
    serial = certificate.first(OLD.cert_pem).serial_number

    assert dict(shown.lines(now=START)) == {
        "certificate": "served",
        "subject": "CN=numalign",
        "names": NAMES[0],
        "serial": f"{serial:x}",
        "authority": "CN=numalign authority",
        "valid from": "2026-05-01 11:55 UTC",
        "valid to": "2026-05-31 12:00 UTC (in 30 days)",
        "rotates": "2026-05-21 11:58 UTC (in 19 days)",
    }


def test_a_certificate_for_programs() -> None:
    (shown,) = inspection.of_state(PairState(OLD), ours=True)

    assert shown.to_json(now=START) == {
        "role": "served",
        "subject": "CN=numalign",
        "names": list(NAMES),
        "serial": f"{certificate.first(OLD.cert_pem).serial_number:x}",
        "authority": "CN=numalign authority",
        "validFrom": "2026-05-01T11:55:00+00:00",
        "validTo": "2026-05-31T12:00:00+00:00",
        "secondsLeft": 30 * 86400,
        "rotates": "2026-05-21T11:58:20+00:00",
    }


def test_a_file_is_shown_by_number() -> None:
    chain = [certificate.first(OLD.cert_pem), certificate.first(OLD.ca_pem)]

    assert [each.role for each in inspection.of_chain(chain)] == ["number 1", "number 2"]


def test_only_the_first_has_to_be_valid_now() -> None:
    report = Report(inspection.of_state(PairState(OLD, NEXT), ours=True))
    over = START + timedelta(days=40)

    assert report.wrong(now=START) == []
    assert [str(each) for each in report.wrong(now=over)] == ["served: expired at 2026-05-31T12:00:00+00:00"]


def test_who_would_not_accept_it() -> None:
    seen = [
        WebhookConfiguration(MUTATING, "x", configuration(bundle=OLD.ca_pem)),
        WebhookConfiguration(VALIDATING, "x", configuration(VALIDATING, bundle=NEXT.ca_pem)),
        WebhookConfiguration("Other", "x", error=NotFound("is not there")),
    ]
    report = Report(inspection.of_state(PairState(OLD), ours=True)).with_trust(seen)

    assert report.to_json(now=START)["trust"] == {
        MUTATING: None,
        VALIDATING: "the caBundle of 0.numalign.io does not contain the certificate's CA",
        "Other": "is not there",
    }
    assert len(report.wrong(now=START)) == 2


def test_nothing_read_is_trusted_by_nobody() -> None:
    report = Report(mistakes=(Mistake("tls.crt", "is missing"),))

    assert report.with_trust([WebhookConfiguration(MUTATING, "x")]) == report
    assert [str(each) for each in report.wrong(now=START)] == ["tls.crt: is missing"]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(days=-1), "past"),
        (timedelta(0), "past"),
        (timedelta(minutes=5), "in 5 minutes"),
        (timedelta(minutes=119), "in 119 minutes"),
        (timedelta(hours=2), "in 2 hours"),
        (timedelta(hours=47), "in 47 hours"),
        (timedelta(days=2), "in 2 days"),
    ],
    ids=str,
)
def test_how_far_away(span: timedelta, words: str) -> None:
    assert inspection.remaining(span) == words
