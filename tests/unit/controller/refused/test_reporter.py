"""What is reported of a rejected pod: once, by the leader, with the state at that moment."""

from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest

from controller.refused.reporter import (
    EVENT,
    MOST_WAITING,
    PREDICTIONS_AT_ONCE,
    RefusalReporter,
    WatchedRefusals,
    free_by_zone,
)
from numalign.kube.events import LONGEST_MESSAGE, Type
from numalign.kubelet.admission_errors import RejectionReason
from numalign.scheduling.recent_refusals import AVOID_SECONDS
from tests.worlds.notation import asks, node, table
from tests.worlds.scorer import EMPTY, FOUR, HALF, TEAM, Raw, Scorer, on, raw, refused, running, uid

OLD = "2027-01-15T07:49:00Z"
"""Longer ago than is reported."""

NONE_RESERVED = "no zones had been reserved for it"


@dataclass
class Reporting:
    """A reporter and the state of a scorer; the namespace `exempt` is exempt from numalign."""

    scorer: Scorer = field(default_factory=Scorer)
    leads: bool = True
    exempt: str = ""

    def __post_init__(self) -> None:
        scorer = self.scorer
        self.events, self.log, self.see = scorer.teller, scorer.journal, scorer.see
        self.reporter = RefusalReporter(
            exempt=lambda pod: pod.namespace == self.exempt,
            leading=lambda: self.leads,
            publish=self.events.append,
            log=self.log.log,
            registry=scorer.registry,
            clock=scorer.time,
        )
        scorer.state.watchers = (WatchedRefusals(scorer.state, self.reporter, clock=scorer.time).update_pod,)

    def messages(self, *pods: Raw) -> list[str]:
        """What is reported after these pods are observed."""
        self.see(*pods)
        self.events.clear()
        self.reporter.report_due()
        return [event.message for event in self.events]

    def counted(self, reason: str = "TopologyAffinityError") -> float:
        return self.scorer.count("refused_pods_total", reason=reason)


@pytest.fixture
async def work() -> Reporting:
    """Two empty nodes of two zones."""
    made = Reporting()
    await made.scorer.know({"a": EMPTY, "b": EMPTY})
    return made


async def test_report_has_what_was_reserved_and_what_is_free(work: Reporting) -> None:
    full = [{"zones": ["node-1"], "amount": {"cpu": "6", "memory": "1Gi"}}]
    work.see(running(on("a", raw("cpu=6 mem=1Gi", name="old"), record=full)), on("a", raw(FOUR), record=HALF))

    [message] = work.messages(refused(on("a", raw(FOUR), record=HALF)))
    assert message == (
        "the kubelet of a rejected the pod: TopologyAffinityError: cannot be aligned; 4 cpu and 1Gi memory"
        " and 1 nvidia.com/gpu from zone 0 had been reserved for it; evaluated again, it would fit now;"
        " free there now: zone 0 8 cpu and 16Gi memory and 2 nvidia.com/gpu, zone 1 2 cpu and 15Gi memory"
        " and 2 nvidia.com/gpu"
    )
    [event] = work.events
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason, event.kind) == (Type.WARNING, EVENT, "Pod")
    [line] = work.log.of("pod.refused")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", message)
    assert work.counted() == 1


def failed(of: Raw = on("a", raw(FOUR)), **status: object) -> Raw:  # noqa: B008  constant
    made = refused(of)
    return {**made, "status": {**made["status"], **status}}


UNREADABLE = {**failed(), "spec": {**failed()["spec"], "containers": [{"resources": 1}]}}
MESSAGES: list[tuple[str, Raw, str, str]] = [
    ("does not fit", refused(on("a", raw("cpu=64 mem=1Gi"))),
     f"; {NONE_RESERVED}; evaluated again, it does not fit: ", "free there now: zone 0 8 cpu"),
    ("has an unknown node", refused(on("c", raw(FOUR))), NONE_RESERVED, "node publishes no NUMA topology"),
    ("cannot be read", UNREADABLE, "cannot be aligned", NONE_RESERVED),
]  # fmt: skip


@pytest.mark.parametrize(("made", "first", "second"), table(MESSAGES))
async def test_report_of_a_pod_that(work: Reporting, made: Raw, first: str, second: str) -> None:
    [message] = work.messages(made)

    assert first in message
    assert second in message
    assert len(message) <= LONGEST_MESSAGE


async def test_defect_of_ours_shortens_the_report(work: Reporting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work.scorer.reservations, "predict", Mock(side_effect=ValueError))
    work.see(running(on("a", raw(FOUR, name="old"))))

    assert work.messages(failed()) == ["the kubelet of a rejected the pod: TopologyAffinityError"]
    [line] = work.log.of("refused.internal_error")
    assert line["pod"] == "team/web"


@pytest.mark.parametrize("reason", sorted(map(str, RejectionReason)))
async def test_pods_are_counted_by_the_reason_of_the_kubelet(work: Reporting, reason: str) -> None:
    assert len(work.messages(failed(reason=reason))) == 1
    assert work.counted(reason) == 1


BEFORE = on("a", raw(FOUR, creationTimestamp=OLD))
"""Created before the tests began."""

LIVES: list[tuple[str, list[Raw], int]] = [
    ("runs",                                [running(on("a", raw(FOUR)))],         0),
    ("was rejected long ago",               [failed(BEFORE, startTime=OLD)],       0),
    ("was created long ago",                [failed(BEFORE)],                      0),
    ("had ended before",                    [failed(reason="Error"), failed()],    0),
    ("is observed to fail, of any time",    [BEFORE, failed(BEFORE, startTime=OLD)], 1),
    ("is reported twice by the watch",      [failed(), failed(message="again")],   1),
]  # fmt: skip


@pytest.mark.parametrize(("life", "count"), table(LIVES))
async def test_reports_of_a_pod_that(work: Reporting, life: list[Raw], count: int) -> None:
    assert len(work.messages(*life)) == work.counted() == count
    assert work.messages() == []


async def test_new_leader_reports_recent_rejections_of_all(work: Reporting) -> None:
    def rejected(name: str, namespace: str = TEAM) -> Raw:
        return refused(on("a", raw(FOUR, name=name, namespace=namespace)))

    work.leads = False
    # Which namespaces are exempt may be known only after a pod was observed.
    work.see(rejected("free", "exempt"), rejected("old"))
    work.exempt = "exempt"
    work.scorer.time.seconds += AVOID_SECONDS - 1
    assert work.messages(rejected("first", "other")) == []
    work.see(*(rejected(f"p{number}") for number in range(MOST_WAITING + 500)))

    work.scorer.time.seconds += 2
    work.leads = True
    messages = work.messages()
    # Two of those that waited are exempt or old.
    assert len(messages) == MOST_WAITING - 2
    assert not any("free there now" in message for message in messages[PREDICTIONS_AT_ONCE:])
    assert "first" in {event.pod for event in work.events[:2]}
    assert not {"free", "old"} & {event.pod for event in work.events}
    # An API server stores the events of two replicas once.
    assert {event.key for event in work.events} == {"TopologyAffinityError"}


def test_free_resources_by_zone_are_limited_to_the_requests() -> None:
    text = free_by_zone(node(*["cpu=8 gpu=1"] * 20), asks("cpu=2 mem=1Gi"))

    assert text.startswith("zone 0 8 cpu, zone 1 8 cpu, ")
    assert text.endswith("zone 15 8 cpu, ...")
    assert free_by_zone(node("gpu=0"), asks("cpu=2 mem=1Gi gpu=1")) == "zone 0 nothing"
