"""
A report about a pair, for people and for programs.

All of it is read from certificates; no key is ever shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509

from certs import certificate, rotation
from certs.bundle import WebhookConfiguration
from certs.secret import PairState
from numalign.model.errors import Mistake
from numalign.runtime import tls

_DAY = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class CertificateRole:
    """One certificate, its role, and when it is rotated, if it is."""

    role: str
    certificate: x509.Certificate
    chain: Sequence[x509.Certificate] = ()
    """The certificate with those that follow it in its file."""
    rotates: datetime | None = None

    def to_json(self, *, now: datetime) -> dict[str, Any]:
        """Return it for programs."""
        shown = self.certificate
        return {
            "role": self.role,
            "subject": shown.subject.rfc4514_string(),
            "names": list(certificate.names(shown)),
            "serial": f"{shown.serial_number:x}",
            "authority": shown.issuer.rfc4514_string(),
            "validFrom": shown.not_valid_before_utc.isoformat(),
            "validTo": shown.not_valid_after_utc.isoformat(),
            "secondsLeft": int((shown.not_valid_after_utc - now).total_seconds()),
            "rotates": self.rotates.isoformat() if self.rotates else None,
        }

    def lines(self, *, now: datetime) -> Iterator[tuple[str, str]]:
        """Yield labels and values for people."""
        since, until = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        facts = self.to_json(now=now)
        yield "certificate", self.role
        yield "subject", facts["subject"]
        yield "names", ", ".join(facts["names"]) or "none"
        yield "serial", facts["serial"]
        yield "authority", facts["authority"]
        yield "valid from", f"{since:{_DAY}}"
        yield "valid to", f"{until:{_DAY}} ({remaining(until - now)})"
        if self.rotates:
            yield "rotates", f"{self.rotates:{_DAY}} ({remaining(self.rotates - now)})"


@dataclass(frozen=True, slots=True)
class Report:
    """Certificates, mistakes in what was read, and why callers do not trust the first, by kind."""

    certificates: Sequence[CertificateRole] = ()
    mistakes: tuple[Mistake, ...] = ()
    trust: Mapping[str, str | None] | None = None

    def with_trust(self, configurations: Sequence[WebhookConfiguration]) -> "Report":
        """Return the same report, with why the callers of these configurations do not trust the pair."""
        if not self.certificates:
            return self
        chain = self.certificates[0].chain
        return replace(self, trust={config.kind: config.distrust(chain) for config in configurations})

    def wrong(self, *, now: datetime) -> list[Mistake]:
        """Return why the first certificate must not be served; empty if it may."""
        wrong = [*self.mistakes]
        if self.certificates:
            first = self.certificates[0]
            wrong += [Mistake(first.role, text) for text in tls.out_of_date(first.certificate, now=now)]
        return wrong + [Mistake(kind, text) for kind, text in (self.trust or {}).items() if text]

    def to_json(self, *, now: datetime) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "certificates": [entry.to_json(now=now) for entry in self.certificates],
            "trust": dict(self.trust or {}),
            "mistakes": [str(mistake) for mistake in self.wrong(now=now)],
        }


def of_state(state: PairState, *, ours: bool) -> list[CertificateRole]:
    """Return the certificates of a state, the served one first; only our own are rotated."""
    roles = [_of_pem("served", state.current.cert_pem, rotation.rotates(state) if ours else None)]
    if state.next:
        roles.append(_of_pem("next", state.next.cert_pem))
    return roles + [_of_pem("retired authority", pem) for pem in state.retired]


def of_chain(chain: Sequence[x509.Certificate]) -> list[CertificateRole]:
    """Return the certificates of one file, by their numbers in it."""
    return [
        CertificateRole(f"number {number}", held, chain[number - 1 :]) for number, held in enumerate(chain, 1)
    ]


def _of_pem(role: str, pem: bytes, rotates: datetime | None = None) -> CertificateRole:
    chain = x509.load_pem_x509_certificates(pem)
    return CertificateRole(role, chain[0], chain, rotates)


def remaining(span: timedelta) -> str:
    """Return how far away a time is, in words."""
    if span <= timedelta(0):
        return "past"
    for unit, length in (("days", timedelta(days=1)), ("hours", timedelta(hours=1))):
        if span >= 2 * length:
            return f"in {span // length} {unit}"
    return f"in {span // timedelta(minutes=1)} minutes"
