"""Places that are held for pods which do not exist yet."""

from dataclasses import dataclass

import pytest

from controller.held import MOST_HELD, RENEW_SECONDS, owner_key, reservation_of
from numalign.kube.pod_informer import PodInfo
from numalign.scheduling.scheduler_state import PendingPod
from tests.unit.controller.healing.conftest import Cluster, Leader, misaligned, web
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM, Raw, raw, uid

UID = uid("web-1")


@dataclass
class Holder:
    """A leader that holds a place on node b for the replacement of web-1."""

    cluster: Cluster
    leader: Leader

    def __post_init__(self) -> None:
        self.places, self.state = self.leader.held, self.leader.state
        self.reservations = self.state.reservations
        self.pending = self.state.pending_pod

    def hold(self, until: float = 1e9) -> bool:
        pending = self.pending(web("web-1-next"))
        prediction = self.state.predict("b", pending, without=())
        assert prediction
        return self.places.hold(self.state.pods[UID], pending, "b", prediction, until=until)

    def gated(self, made: Raw) -> tuple[PodInfo, PendingPod]:
        """A pod waits at the gate."""
        gated = {**made, "spec": {**made["spec"], "schedulingGates": [{"name": "numalign.io/placement"}]}}
        self.cluster.put(gated)
        return self.state.pods[made["metadata"]["uid"]], self.pending(gated)


@pytest.fixture
async def holder() -> Holder:
    return Holder(*await misaligned("web-1"))


async def test_replacement_takes_the_place_once_and_no_quota(holder: Holder) -> None:
    before, waiting = holder.reservations.exclusive_cpus(TEAM), holder.gated(web("waiting"))
    assert holder.hold()
    assert holder.reservations.exclusive_cpus(TEAM) == before > 0
    # One that waited before is no replacement.
    assert holder.places.take(*waiting) is None
    pod, pending = holder.gated(web("new"))

    assert holder.places.awaits(pod, pending)
    assert holder.places.take(pod, pending) == "b"
    assert holder.places.taken_by(UID) == uid("new")
    assert holder.reservations.reserved() == ()
    assert holder.places.take(*holder.gated(web("newer"))) is None


NOT_FOR = [
    ("of another owner", web("other", "another-owner")),
    ("of another policy", web("other", policy="restricted")),
    ("that may not go there", web("other", spec={"nodeSelector": {"pool": "x"}})),
    ("of no owner", raw("cpu=4 mem=1Gi", name="other", ownerReferences=[])),
]


@pytest.mark.parametrize("made", table(NOT_FOR))
async def test_place_is_not_for_a_pod(holder: Holder, made: Raw) -> None:
    holder.hold()
    pod, pending = holder.gated(made)

    assert not holder.places.awaits(pod, pending)
    assert holder.places.take(pod, pending) is None
    assert holder.places.is_held(UID)
    assert (owner_key(pod) is None) is (made["metadata"]["ownerReferences"] == [])


async def test_held_place_counts_for_other_pods(holder: Holder) -> None:
    first, second = (holder.pending(web(f"big-{at}", f"owner-{at}", cpu=16)) for at in range(2))
    holder.hold()
    taken = holder.state.predict("b", first, without=())
    assert taken
    assert taken.verdict.admitted
    holder.reservations.reserve("b", first.assigned_pod(now=0), taken)
    refused = holder.state.predict("b", second, without=())
    assert refused
    assert refused.verdict.refused


async def test_place_is_renewed_until_its_time_is_over(holder: Holder) -> None:
    holder.hold(until=holder.cluster.time() + 40 * RENEW_SECONDS)
    for _ in range(39):
        holder.cluster.time.seconds += RENEW_SECONDS
        assert holder.places.expire() == ()
        assert holder.reservations.expire(holder.cluster.time()) == ()
    assert (holder.places.is_held(UID), holder.reservations.node_of(reservation_of(UID))) == (True, "b")

    holder.cluster.time.seconds += RENEW_SECONDS
    assert (holder.places.expire(), holder.reservations.reserved()) == ((UID,), ())


async def test_places_are_bounded_and_on_nodes_that_exist(
    holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_HELD > 0
    with monkeypatch.context() as patch:
        patch.setattr("controller.held.MOST_HELD", 0)
        assert not holder.hold()
    assert holder.hold()
    # One for each pod.
    assert not holder.hold()

    del holder.cluster.nodes["b"]
    await holder.cluster.publish()
    holder.cluster.time.seconds += RENEW_SECONDS
    holder.places.expire()
    assert not holder.places.is_held(UID)
    assert holder.reservations.node_of(reservation_of(UID)) is None
