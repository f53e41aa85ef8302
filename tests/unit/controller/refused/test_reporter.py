"""What is told of a refused pod: once, by who leads, and with what there was at that moment."""

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
"""Longer ago than is told."""


class World:
    """A cluster in which a teller looks at what a scorer would know."""

    def __init__(self) -> None:
        self.scorer = Scorer()
        self.leads, self.exempt = True, ""
        scorer = self.scorer
        self.reporter = RefusalReporter(
            exempt=lambda pod: pod.namespace == self.exempt,
            leading=lambda: self.leads,
            publish=scorer.teller.append,
            log=scorer.told.log,
            registry=scorer.registry,
            clock=scorer.time,
        )
        scorer.state.watchers = (WatchedRefusals(scorer.state, self.reporter, clock=scorer.time).update_pod,)

    def messages(self) -> list[str]:
        """What is told now."""
        self.scorer.teller.clear()
        self.reporter.report_due()
        return [event.message for event in self.scorer.teller]

    def counted(self, reason: str = "TopologyAffinityError") -> float:
        """How many pods were refused for this."""
        return self.scorer.count("refused_pods_total", reason=reason)


@pytest.fixture
async def world() -> World:
    """Two nodes of two zones, with nothing on them."""
    made = World()
    await made.scorer.know({"a": EMPTY, "b": EMPTY})
    return made


async def test_the_owner_reads_what_was_reserved_and_what_is_free(world: World) -> None:
    scorer = world.scorer
    full = [{"zones": ["node-1"], "amount": {"cpu": "6", "memory": "1Gi"}}]
    scorer.see(running(on("a", raw("cpu=6 mem=1Gi", name="old"), record=full)))
    scorer.see(on("a", raw(FOUR), record=HALF))
    scorer.see(refused(on("a", raw(FOUR), record=HALF)))

    [message] = world.messages()
    assert message == (
        "the kubelet of a rejected the pod: TopologyAffinityError: cannot be aligned; 4 cpu and 1Gi memory"
        " and 1 nvidia.com/gpu from zone 0 had been reserved for it; evaluated again, it would fit now;"
        " free there now: zone 0 8 cpu and 16Gi memory and 2 nvidia.com/gpu, zone 1 2 cpu and 15Gi memory"
        " and 2 nvidia.com/gpu"
    )
    [event] = scorer.teller
    assert (event.namespace, event.pod, event.uid) == (TEAM, "web", uid("web"))
    assert (event.type, event.reason, event.kind) == (Type.WARNING, EVENT, "Pod")
    [line] = scorer.told.of("pod.refused")
    assert (line["pod"], line["node"], line["message"]) == ("team/web", "a", message)
    assert world.counted() == 1


async def test_where_others_chose_the_node_it_is_told_all_the_same(world: World) -> None:
    world.scorer.see(refused(on("a", raw("cpu=64 mem=1Gi"))))

    [message] = world.messages()
    assert "; no zones had been reserved for it; evaluated again, it does not fit: " in message
    assert "free there now: zone 0 8 cpu" in message


async def test_of_a_node_that_nobody_knows_nothing_is_free(world: World) -> None:
    world.scorer.see(refused(on("c", raw(FOUR))))

    [message] = world.messages()
    assert message.endswith("; no zones had been reserved for it; the node publishes no NUMA topology")


async def test_a_pod_that_cannot_be_read_is_told_of(world: World) -> None:
    made = refused(on("a", raw(FOUR)))
    world.scorer.see({**made, "spec": {**made["spec"], "containers": [{"resources": 1}]}})

    [message] = world.messages()
    assert message.endswith("no zones had been reserved for it")


async def test_what_is_long_is_cut(world: World) -> None:
    world.scorer.see(refused(on("a", raw(FOUR)), message="x" * 5000))

    [message] = world.messages()
    assert len(message) <= LONGEST_MESSAGE
    assert "x..." in message
    assert "free there now: " in message


async def test_what_breaks_us_is_told_shortly_and_holds_up_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError

    monkeypatch.setattr(world.scorer.reservations, "predict", broken)
    world.scorer.see(running(on("a", raw(FOUR, name="old"))), failed())

    assert world.messages() == ["the kubelet of a rejected the pod: TopologyAffinityError"]
    [line] = world.scorer.told.of("refused.internal_error")
    assert line["pod"] == "team/web"


@pytest.mark.parametrize("reason", sorted(map(str, RejectionReason)))
async def test_pods_are_counted_by_the_reason_of_their_kubelet(world: World, reason: str) -> None:
    world.scorer.see(refused(on("a", raw(FOUR)), reason=reason))

    assert len(world.messages()) == 1
    assert world.counted(reason) == 1


def failed(**status: object) -> Raw:
    """A pod that failed like this."""
    made = refused(on("a", raw(FOUR)))
    return {**made, "status": {**made["status"], **status}}


def long_ago(**status: object) -> Raw:
    """The same before the tests began."""
    made = refused(on("a", raw(FOUR, creationTimestamp=OLD)))
    return {**made, "status": {**made["status"], **status}}


OTHERS: list[tuple[str, list[Raw]]] = [
    ("it waits",                    [raw(FOUR)]),
    ("it runs",                     [running(on("a", raw(FOUR)))]),
    ("it failed by itself",         [failed(reason="Error")]),
    ("it was refused long ago",     [long_ago(startTime=OLD)]),
    ("it was made long ago",        [long_ago()]),
    ("it had ended before",         [failed(reason="Error"), failed()]),
]  # fmt: skip


@pytest.mark.parametrize("life", table(OTHERS))
async def test_nothing_is_told_of_a_pod_if(world: World, life: list[Raw]) -> None:
    world.scorer.see(*life)

    assert world.messages() == []
    assert world.counted() == 0


async def test_what_is_seen_to_happen_is_told_whatever_clock_is_behind(
    world: World,
) -> None:
    world.scorer.see(on("a", raw(FOUR, creationTimestamp=OLD)), long_ago(startTime=OLD))

    assert len(world.messages()) == 1


async def test_nothing_is_told_of_pods_that_numalign_leaves_alone(world: World) -> None:
    """Which may be known only after they were seen."""
    world.scorer.see(failed())
    world.exempt = TEAM

    assert world.messages() == []
    assert world.counted() == 0


async def test_it_is_told_once(world: World) -> None:
    world.scorer.see(failed(), failed(message="again"))

    assert len(world.messages()) == 1
    assert world.messages() == []


async def test_only_who_leads_tells_and_who_comes_to_lead_tells_what_happened_lately(world: World) -> None:
    world.leads = False
    world.scorer.see(refused(on("a", raw(FOUR, name="one"))))
    world.scorer.time.seconds += AVOID_SECONDS - 1
    world.scorer.see(failed())
    assert world.messages() == []

    world.scorer.time.seconds += 2
    world.leads = True
    assert len(world.messages()) == 1
    assert [event.pod for event in world.scorer.teller] == ["web"]


async def test_two_replicas_tell_the_same_event_in_whatever_words(world: World) -> None:
    """An API server keeps the first of them."""
    other = World()
    await other.scorer.know({"a": node("cpu=1", "cpu=1")})
    for each in (world, other):
        each.scorer.see(failed())
    assert world.messages() != other.messages()

    [mine], [theirs] = world.scorer.teller, other.scorer.teller
    assert mine.key == theirs.key == "TopologyAffinityError"


async def test_thousands_in_a_moment_are_told_without_a_look_at_each(world: World) -> None:
    for number in range(MOST_WAITING + 500):
        world.scorer.see(refused(on("a", raw(FOUR, name=f"p{number}"))))

    messages = world.messages()
    assert len(messages) == MOST_WAITING
    assert not any("free there now" in message for message in messages[PREDICTIONS_AT_ONCE:])


async def test_thousands_in_one_namespace_displace_none_of_another(world: World) -> None:
    world.leads = False
    world.scorer.see(refused(on("a", raw(FOUR, name="first", namespace="other"))))
    for number in range(MOST_WAITING + 500):
        world.scorer.see(refused(on("a", raw(FOUR, name=f"p{number}"))))
    world.leads = True
    world.messages()

    assert "first" in {event.pod for event in world.scorer.teller[:2]}


def test_zones_are_told_by_what_is_asked_for() -> None:
    many = node(*["cpu=8 gpu=1"] * 20)

    told = free_by_zone(many, asks("cpu=2 mem=1Gi"))
    assert told.startswith("zone 0 8 cpu, zone 1 8 cpu, ")
    assert told.endswith("zone 15 8 cpu, ...")
    assert free_by_zone(node("gpu=0"), asks("cpu=2 mem=1Gi gpu=1")) == "zone 0 nothing"
