"""What is printed of a pair."""

from datetime import timedelta

from certs import certificate, inspection
from certs.bundle import WebhookConfiguration
from certs.inspection import Report
from certs.secret import PairState
from numalign.kube.errors import NotFound
from tests.worlds.clock import NOON
from tests.worlds.pairs import MUTATING, NAMES, VALIDATING, configuration, pair

OLD, NEXT = pair(), pair(days=60)


def test_certificate_for_people_and_for_programs() -> None:
    (one,) = inspection.of_state(PairState(OLD), ours=True)
    serial = f"{certificate.first(OLD.cert_pem).serial_number:x}"
    common = {"subject": "CN=numalign", "serial": serial, "authority": "CN=numalign authority"}

    assert dict(one.lines(now=NOON)) == {
        **common,
        "certificate": "served",
        "names": NAMES[0],
        "valid from": "2026-05-01 11:55 UTC",
        "valid to": "2026-05-31 12:00 UTC (in 30 days)",
        "rotates": "2026-05-21 11:58 UTC (in 19 days)",
    }
    assert one.to_json(now=NOON) == {
        **common,
        "role": "served",
        "names": list(NAMES),
        "validFrom": "2026-05-01T11:55:00+00:00",
        "validTo": "2026-05-31T12:00:00+00:00",
        "secondsLeft": 30 * 86400,
        "rotates": "2026-05-21T11:58:20+00:00",
    }


def test_only_the_served_certificate_must_be_valid_now() -> None:
    report = Report(inspection.of_state(PairState(OLD, NEXT, (pair().ca_pem,)), ours=True))
    late = NOON + timedelta(days=40)

    assert [each.role for each in report.certificates] == ["served", "next", "retired authority"]
    assert [each.rotates is not None for each in report.certificates] == [True, False, False]
    assert report.wrong(now=NOON) == []
    assert [str(each) for each in report.wrong(now=late)] == ["served: expired at 2026-05-31T12:00:00+00:00"]


def test_callers_that_would_not_accept_it_are_listed() -> None:
    configurations = [
        WebhookConfiguration(MUTATING, "x", configuration(bundle=OLD.ca_pem)),
        WebhookConfiguration(VALIDATING, "x", configuration(VALIDATING, bundle=NEXT.ca_pem)),
        WebhookConfiguration("Other", "x", error=NotFound("is not there")),
    ]
    report = Report(inspection.of_state(PairState(OLD), ours=True)).with_trust(configurations)

    assert report.to_json(now=NOON)["trust"] == {
        MUTATING: None,
        VALIDATING: "the caBundle of 0.numalign.io does not contain the certificate's CA",
        "Other": "is not there",
    }
    assert len(report.wrong(now=NOON)) == 2


def test_remaining_time_in_words() -> None:
    words = {0: "past", 119: "in 119 minutes", 120: "in 2 hours", 48 * 60: "in 2 days"}

    assert {each: inspection.remaining(timedelta(minutes=each)) for each in words} == words
