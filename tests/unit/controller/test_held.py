"""Places that are held for pods which are not there yet."""

import pytest

from controller.held import MOST_HELD, RENEW_SECONDS, owner_key, reservation_of
from numalign.kube.pod_informer import PodInfo
from numalign.scheduling.scheduler_state import PendingPod
from tests.unit.controller.healing.conftest import SPREAD, Cluster, Leader, a_cluster, web
from tests.worlds.scorer import TEAM, Raw, uid

UID = uid("web-1")


class Holding:
    """A leader who holds a place on node b for the replacement of web-1."""

    def __init__(self, cluster: Cluster, leader: Leader) -> None:
        self.cluster, self.leader, self.held = cluster, leader, leader.held

    @classmethod
    async def made(cls) -> "Holding":
        """Nothing is held yet."""
        cluster = await a_cluster("a", "b")
        await cluster.runs(web("web-1"), "a", SPREAD)
        leader = Leader(cluster)
        await cluster.publish()
        return cls(cluster, leader)

    def pending(self, made: Raw) -> PendingPod:
        """What a pod asks for."""
        return self.leader.state.pending_pod(made)

    def hold(self, name: str = "web-1", node: str = "b", until: float = 1e9) -> bool:
        """Hold what a node offers by now."""
        pending = self.pending(web(f"{name}-next"))
        prediction = self.leader.state.predict(node, pending, without=())
        assert prediction
        pod = self.leader.state.pods[uid(name)]
        return self.held.hold(pod, pending, node, prediction, until=until)

    def comes(self, made: Raw) -> tuple[PodInfo, PendingPod]:
        """A pod waits at the gate."""
        gated = {**made, "spec": {**made["spec"], "schedulingGates": [{"name": "numalign.io/placement"}]}}
        self.cluster.put(gated)
        return self.leader.state.pods[made["metadata"]["uid"]], self.pending(gated)


async def test_the_replacement_takes_what_is_held() -> None:
    holding = await Holding.made()
    assert holding.hold()
    pod, pending = holding.comes(web("new"))

    assert holding.held.awaits(pod, pending)
    assert holding.held.take(pod, pending) == "b"
    assert holding.held.taken_by(UID) == uid("new")
    assert holding.leader.state.reservations.reserved() == ()


async def test_it_uses_nothing_of_a_quota_until_it_is_taken() -> None:
    holding = await Holding.made()
    used = holding.leader.state.reservations.exclusive_cpus(TEAM)
    holding.hold()

    assert used > 0
    assert holding.leader.state.reservations.exclusive_cpus(TEAM) == used


async def test_it_is_taken_once() -> None:
    holding = await Holding.made()
    holding.hold()
    assert holding.held.take(*holding.comes(web("new"))) == "b"

    assert holding.held.take(*holding.comes(web("newer"))) is None


@pytest.mark.parametrize(
    "made",
    [
        web("other", "another-owner"),
        web("other", cpu=2),
        web("other", policy="restricted"),
        web("other", spec={"nodeSelector": {"pool": "x"}}),
    ],
    ids=["of another owner", "that asks for less", "that means something else", "that may not go there"],
)
async def test_other_pods_take_nothing(made: Raw) -> None:
    holding = await Holding.made()
    holding.hold()
    pod, pending = holding.comes(made)

    assert not holding.held.awaits(pod, pending)
    assert holding.held.take(pod, pending) is None
    assert holding.held.is_held(UID)


async def test_a_pod_that_waited_before_takes_nothing() -> None:
    holding = await Holding.made()
    pod, pending = holding.comes(web("waiting"))
    holding.hold()

    assert holding.held.take(pod, pending) is None


async def test_a_bare_pod_takes_nothing() -> None:
    holding = await Holding.made()
    holding.hold()
    made = web("new")
    made["metadata"]["ownerReferences"] = []
    pod, pending = holding.comes(made)

    assert owner_key(pod) is None
    assert holding.held.take(pod, pending) is None


async def test_what_is_held_counts_for_everybody_else() -> None:
    holding = await Holding.made()
    state = holding.leader.state
    first, second = (holding.pending(web(f"big-{at}", f"owner-{at}", cpu=16)) for at in range(2))
    holding.hold()
    taken = state.predict("b", first, without=())
    assert taken is not None
    state.reservations.reserve("b", first.assigned_pod(now=0), taken)

    left = state.predict("b", second, without=())

    assert taken.verdict.admitted
    assert left is not None
    assert left.verdict.refused


async def test_for_a_pod_one_place_is_held() -> None:
    holding = await Holding.made()
    assert holding.hold()

    assert not holding.hold()


async def test_no_more_are_held_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    holding = await Holding.made()
    monkeypatch.setattr("controller.held.MOST_HELD", 0)

    assert MOST_HELD > 0
    assert not holding.hold()


async def test_its_time_comes_to_an_end() -> None:
    holding = await Holding.made()
    holding.hold(until=holding.cluster.time() + 100)

    holding.cluster.time.seconds += 99
    assert holding.held.expire() == ()
    holding.cluster.time.seconds += 1

    assert holding.held.expire() == (UID,)
    assert holding.leader.state.reservations.reserved() == ()


async def test_until_then_it_is_kept_up() -> None:
    holding = await Holding.made()
    holding.hold(until=holding.cluster.time() + 1000)

    for _ in range(40):
        holding.cluster.time.seconds += RENEW_SECONDS
        holding.held.expire()
        assert holding.leader.state.reservations.expire(holding.cluster.time()) == ()

    assert holding.held.is_held(UID)
    assert holding.held.node_of(UID) == "b"


async def test_a_node_that_has_gone_holds_nothing() -> None:
    holding = await Holding.made()
    holding.hold()
    del holding.cluster.nodes["b"]
    await holding.cluster.publish()

    holding.cluster.time.seconds += RENEW_SECONDS
    holding.held.expire()

    assert not holding.held.is_held(UID)
    assert holding.leader.state.reservations.node_of(reservation_of(UID)) is None


async def test_all_of_it_can_be_given_up() -> None:
    holding = await Holding.made()
    holding.hold()

    holding.held.give_up_all()

    assert len(holding.held) == 0
    assert holding.leader.state.reservations.reserved() == ()
