"""When each alert is to be given, and when not: series as promtool reads them, a value a minute.

`0+1x30` begins at 0 and grows by 1 for 30 minutes, `1x30` stays at 1, `_` is a minute without a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Values = Mapping[str, str]
"""What a Prometheus has scraped: values by series."""


@dataclass(frozen=True)
class AlertCase:
    """What an alert is given for, and what is much like it and no reason for one.

    `labels` are those of the alert and `value` what its text shows, both at minute `at`.
    """

    firing: Values
    silent: Values
    labels: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    at: int = 30


def _replica(program: str, number: int = 1) -> str:
    return f'job="{program}",instance="{program}-{number}"'


def _build(program: str, number: int = 1) -> Values:
    return {f'numalign_build_info{{program="{program}",{_replica(program, number)}}}': "1x30"}


def _one(metric: str, program: str, values: str, number: int = 1) -> Values:
    return {f"{metric}{{{_replica(program, number)}}}": values}


WEBHOOK, CONTROLLER, SCORER = "numalign-webhook", "numalign-controller", "numalign-scorer"
DAY = 86400


def _reviews(slow: int, fast: int) -> Values:
    """Reviews that grow by so many a minute: those of 0.6 s, and those of 0.001 s."""
    series = f'numalign_review_seconds_bucket{{webhook="validate",{_replica(WEBHOOK)},le='
    totals = {"0.001": fast, "0.5": fast, "1": fast + slow, "+Inf": fast + slow}
    return {f'{series}"{edge}"}}': f"0+{total}x30" for edge, total in totals.items()}


def _late(late: int, soon: int) -> Values:
    """Ticks of the event loop that grow by so many a minute: those 0.6 s late, and those on time."""
    series = f"numalign_event_loop_lag_seconds_bucket{{{_replica(SCORER)},le="
    totals = {"0.001": soon, "0.5": soon, "1": soon + late, "+Inf": soon + late}
    return {f'{series}"{edge}"}}': f"0+{total}x30" for edge, total in totals.items()}


def _answers(good: int, bad: int, route: str = "/validate") -> Values:
    series = f'numalign_http_requests_total{{route="{route}",{_replica(WEBHOOK)},code='
    return {f'{series}"200"}}': f"0+{good}x30", f'{series}"503"}}': f"0+{bad}x30"}


def _failures(reason: str, values: str) -> Values:
    labels = f'kind="Pod",reason="{reason}",{_replica(WEBHOOK)}'
    return {f"numalign_watch_failures_total{{{labels}}}": values}


def _decided(state: str, values: str) -> Values:
    return {f'numalign_decisions_total{{state="{state}",{_replica(WEBHOOK)}}}': values}


def _rejected(values: str) -> Values:
    return {f'numalign_refused_pods_total{{reason="TopologyAffinityError",{_replica(CONTROLLER)}}}': values}


def _refused(values: str) -> Values:
    labels = f'reason="TopologyAffinityError",known="reserved",{_replica(SCORER)}'
    return {f"numalign_kubelet_refusals_total{{{labels}}}": values}


def _predicted(agreed: str, differed: str) -> Values:
    series = f"numalign_predictions_total{{{_replica(SCORER)},result="
    return {f'{series}"agreed"}}': agreed, f'{series}"differed"}}': differed}


def _doubts(doubtful: str, disbelieved: str) -> Values:
    return {
        **_one("numalign_doubtful_records", SCORER, doubtful),
        **_one("numalign_disbelieved_records", SCORER, disbelieved),
    }


def _gated(waiting: str, lifted: str) -> Values:
    return {
        **_one("numalign_gated_pods", CONTROLLER, waiting),
        f'numalign_gates_lifted_total{{how="pinned",{_replica(CONTROLLER)}}}': lifted,
    }


def _topologies(source: str, values: str) -> Values:
    return {f'numalign_topology_nodes{{source="{source}",{_replica(SCORER)}}}': values}


CASES: Mapping[str, AlertCase] = {
    "NumalignWebhookNotReady": AlertCase(
        # A scorer that is ready is no webhook.
        firing={
            **_build(WEBHOOK),
            **_build(SCORER),
            **_one("numalign_ready", WEBHOOK, "1x5 0x25"),
            **_one("numalign_ready", SCORER, "1x30"),
        },
        silent={
            **_build(WEBHOOK, 1),
            **_build(WEBHOOK, 2),
            **_one("numalign_ready", WEBHOOK, "0x30", 1),
            **_one("numalign_ready", WEBHOOK, "1x30", 2),
        },
    ),
    "NumalignControllerWithoutLeader": AlertCase(
        firing={
            **_build(CONTROLLER),
            **_build(SCORER),
            **_one("numalign_leader", CONTROLLER, "0x30"),
            **_one("numalign_leader", SCORER, "1x30"),
        },
        # It changes: for three minutes nobody leads.
        silent={**_build(CONTROLLER), **_one("numalign_leader", CONTROLLER, "1x20 0x3 1x20")},
    ),
    "NumalignScorerNotReady": AlertCase(
        # Nobody is scraped at all.
        firing={**_build(WEBHOOK), **_one("numalign_ready", WEBHOOK, "1x30")},
        silent={**_build(SCORER), **_one("numalign_ready", SCORER, "1x30")},
    ),
    "NumalignCertificateEndsSoon": AlertCase(
        # Times are counted from 1970, as promtool's are.
        firing=_one("numalign_tls_certificate_expiry_timestamp_seconds", WEBHOOK, f"{5 * DAY + 1800}x30"),
        silent=_one("numalign_tls_certificate_expiry_timestamp_seconds", WEBHOOK, f"{8 * DAY}x30"),
        labels={"job": WEBHOOK},
        value="5.0",
    ),
    "NumalignSnapshotOld": AlertCase(
        firing=_one("numalign_snapshot_age_seconds", SCORER, "0+60x30"),
        silent=_one("numalign_snapshot_age_seconds", SCORER, "150x30"),
        labels={"job": SCORER, "instance": "numalign-scorer-1"},
        value="30m 0s",
    ),
    "NumalignWatchFailing": AlertCase(
        firing=_failures("forbidden", "0+2x30"),
        # History that is compacted is no failure of anybody.
        silent={**_failures("expired", "0+9x30"), **_failures("silent", "0x20 5x10")},
        labels={"job": WEBHOOK, "kind": "Pod", "reason": "forbidden"},
        value="30",
    ),
    "NumalignPolicyStale": AlertCase(
        firing=_one("numalign_policy_stale", WEBHOOK, "1x30"),
        silent=_one("numalign_policy_stale", WEBHOOK, "1x20 0x10"),
        labels={"job": WEBHOOK},
    ),
    "NumalignReviewsSlow": AlertCase(
        firing=_reviews(slow=50, fast=50),
        silent=_reviews(slow=0, fast=100),
        labels={"webhook": "validate"},
        value="990ms",
    ),
    "NumalignEventLoopLate": AlertCase(
        firing=_late(late=50, soon=50),
        silent=_late(late=0, soon=100),
        labels={"job": SCORER, "instance": "numalign-scorer-1"},
        value="990ms",
    ),
    "NumalignCallsFailing": AlertCase(
        firing=_answers(good=95, bad=5),
        # A replica that waits to lead says no to every probe.
        silent={**_answers(good=1000, bad=5), **_answers(good=0, bad=6, route="/readyz")},
        labels={"job": WEBHOOK, "route": "/validate"},
        value="5.0",
    ),
    "NumalignPodsNeverFit": AlertCase(
        firing=_decided("never", "0+3x30"),
        silent={**_decided("never", "0x10 5x20"), **_decided("fits", "0+100x30")},
        value="3.0",
    ),
    "NumalignAgentsMissing": AlertCase(
        firing=_topologies("none", "2x30"),
        silent={**_topologies("none", "0x10 1x10 0x10"), **_topologies("exporter", "3x30")},
        value="2",
    ),
    "NumalignAgentsStale": AlertCase(
        firing=_one("numalign_topology_stale_nodes", SCORER, "0x10 3x20"),
        silent=_one("numalign_topology_stale_nodes", SCORER, "0x30"),
        value="3",
    ),
    "NumalignPodsRejected": AlertCase(
        firing=_rejected("0x20 4x10"),
        # A few, and many long ago.
        silent=_rejected("0 9x20 11x10"),
        labels={"reason": "TopologyAffinityError"},
        value="4",
    ),
    "NumalignKubeletRefusedPod": AlertCase(
        firing=_refused("0x20 1x10"),
        # Long ago.
        silent=_refused("0 1x40"),
        labels={"reason": "TopologyAffinityError", "known": "reserved"},
        value="1",
    ),
    "NumalignPredictionsWrong": AlertCase(
        firing=_predicted("0+90x30", "0+10x30"),
        silent=_predicted("0+1000x30", "0x20 1x10"),
        value="10.0",
    ),
    "NumalignLedgerInDoubt": AlertCase(
        firing=_doubts("1x30", "2x30"),
        silent=_doubts("0x10 1x10 0x10", "0x30"),
        value="3",
    ),
    "NumalignGatesStuck": AlertCase(
        firing=_gated("4x30", "7x30"),
        # Many wait, and they are let go one after the other.
        silent=_gated("4x30", "0+1x30"),
        value="4",
    ),
}
"""By alert."""
