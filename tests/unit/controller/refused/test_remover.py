"""Only what was evaluated is deleted, never twice, and slowly."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from controller.refused.removal import JOB_TRACKING, Removal, removals
from controller.refused.remover import AGAIN_SECONDS, BURST, EVENT, LONGEST_PAUSE, PER_SECOND, Remover
from numalign.kube.client import Query
from numalign.kube.errors import Conflict, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.pod_informer import PodInfo
from numalign.model.steps import Steps
from tests.unit.controller.conftest import Replica
from tests.unit.controller.pods import Json, refused, running, stored
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM
from tests.worlds.write_faults import DEFECT, FORBIDDEN, GONE, INVALID, THROTTLED

RESULTS = ("removed", "gone", "changed", "uncounted", "forbidden", "failed")


@dataclass
class RemovalReplica(Replica):
    """A remover, the pods that it observes and those that are stored; `broken` calls of it raise.

    With `permits`, the namespace, as stored, permits deletions.
    """

    keep: int = 3
    permits: bool = True
    observed: dict[str, PodInfo] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    pods: dict[str, Json] = field(default_factory=dict)
    broken: dict[tuple[str, str], Exception] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before_delete: Callable[[], object] = lambda: None

    def remover(self, api: Any = None, registry: CollectorRegistry | None = None) -> Remover:  # noqa: ANN401
        server: Any = api or self
        return Remover(
            server,
            due=self.due,
            permitted=self.permitted,
            publish=self.events.append,
            chance=lambda: 0.0,
            **self.parts(registry),
        )

    def add(self, *pods: PodInfo) -> None:
        self.observed |= {pod.uid: pod for pod in pods}
        self.pods |= {pod.name: stored(pod) for pod in pods}

    def due(self) -> Steps[tuple[Removal, ...]]:
        pods = tuple(self.observed.values())
        return (yield from removals(pods, pods, heals=lambda _: True, keep=self.keep))

    def sync(self) -> None:
        """The watch reports the deletions."""
        self.observed = {uid: pod for uid, pod in self.observed.items() if pod.name in self.pods}

    def deleted(self) -> list[str]:
        return [name for verb, name in self.calls if verb == "delete"]

    def results(self) -> dict[str, float]:
        """How attempts ended, without zeros."""
        counts = {word: self.count("refused_pod_removals_total", result=word) for word in RESULTS}
        return {word: count for word, count in counts.items() if count}

    async def permitted(self, namespace: str) -> bool:
        self.calls.append(("permitted", namespace))
        return self.permits

    async def get(self, path: str, _query: Query = (), *, what: str) -> object:
        return self.pods[self._called("get", path, what)]

    async def delete(self, path: str, options: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        self.before_delete()
        name = self._called("delete", path, what)
        metadata = self.pods[name]["metadata"]
        if options["preconditions"] != {key: metadata[key] for key in ("uid", "resourceVersion")}:
            raise Conflict(what)
        return self.pods.pop(name)

    def _called(self, verb: str, path: str, what: str) -> str:
        namespace, name = path.removeprefix("/api/v1/namespaces/").split("/pods/")
        assert what == f"pod {namespace}/{name}"
        self.calls.append((verb, name))
        if error := self.broken.get((verb, name)):
            raise error
        if name not in self.pods:
            raise NotFound(name)
        return name


OLD = [refused(f"r{number}", number) for number in range(4)]
ALIVE = running("web", 9)


@pytest.fixture
async def work() -> AsyncIterator[RemovalReplica]:
    """A ReplicaSet with four rejected pods, and an active one."""
    made = RemovalReplica()
    with made.running(made.remover().run):
        await made.pass_by(2)
        made.add(*OLD, ALIVE)
        yield made


async def test_deletion_is_done_once_with_an_event_on_the_owner(work: RemovalReplica) -> None:
    await work.pass_by(1000)

    assert work.deleted() == ["r0"]
    verbs = [verb for verb, _ in work.calls]
    assert verbs[verbs.index("delete") - 1] == "permitted"
    message = (
        "deleted pod r0, which the kubelet of n rejected (TopologyAffinityError):"
        " web was created since, and the 3 newest rejected pods are kept"
    )
    about = {"kind": "ReplicaSet", "api_version": "apps/v1"}
    assert work.events == [Event(TEAM, "web-1", "u1", Type.NORMAL, EVENT, message, **about)]
    [line] = work.log.of("refused.removed")
    assert (line["pod"], line["node"], line["owner"]) == ("team/r0", "n", "ReplicaSet/web-1")
    # The watch went on reporting it.
    assert work.results()["removed"] == 1
    assert work.results()["gone"] > 1


def change(work: RemovalReplica, **metadata: object) -> Callable[[], object]:
    return lambda: work.pods.update(r0=stored(OLD[0], **metadata))


OBSTACLES: list[tuple[str, Callable[[RemovalReplica], object], str]] = [
    ("its version changed after the read",
     lambda work: setattr(work, "before_delete", change(work, resourceVersion="8")), "changed"),
    ("the active pod is gone", lambda work: work.pods.pop("web"), "changed"),
    ("its Job has not counted it", lambda work: change(work, finalizers=[JOB_TRACKING])(), "uncounted"),
    ("the namespace no longer permits it", lambda work: setattr(work, "permits", False), "changed"),
    ("it is gone before the read", lambda work: work.broken.update({("get", "r0"): GONE}), "gone"),
]  # fmt: skip


@pytest.mark.parametrize(("obstacle", "result"), table(OBSTACLES))
async def test_pod_stays_without_an_error_if(
    work: RemovalReplica, obstacle: Callable[[RemovalReplica], object], result: str
) -> None:
    obstacle(work)
    await work.pass_by(30)

    assert "r0" in work.pods
    assert (work.results(), work.events, work.log.of("refused.failed")) == ({result: 1}, [], [])
    # It is tried again.
    work.broken, work.permits, work.before_delete = {}, True, lambda: None
    work.add(*OLD, ALIVE)
    await work.pass_by(AGAIN_SECONDS)
    assert work.results()["removed"] == 1


async def test_deletions_are_limited_by_their_rate(work: RemovalReplica) -> None:
    work.keep = 0
    work.add(*(refused(f"x{number}") for number in range(500)))
    await work.pass_by(1)
    assert len(work.deleted()) == BURST

    began = work.clock.seconds
    for _ in range(30):
        work.sync()
        await work.pass_by(1)
    earned = PER_SECOND * (work.clock.seconds - began)
    assert 100 < earned - BURST <= len(work.deleted()) <= earned + BURST < 400


async def test_failing_server_gets_growing_pauses_for_all_pods(work: RemovalReplica) -> None:
    work.keep = 0
    work.broken = dict.fromkeys([("get", pod.name) for pod in OLD], THROTTLED)
    await work.pass_by(2000)

    assert 5 <= work.results()["failed"] == len(work.log.of("refused.failed")) <= 20
    work.broken = {}
    await work.pass_by(2 * LONGEST_PAUSE)
    assert len(work.pods) == 1


@pytest.mark.parametrize("denial", [FORBIDDEN, INVALID], ids=["403", "422"])
async def test_denying_namespace_delays_no_other(work: RemovalReplica, denial: Exception) -> None:
    """A policy of the cluster may protect one of them."""
    work.broken["delete", "r0"] = denial
    others = (replace(pod, uid=f"o-{pod.uid}", name=f"o-{pod.name}", namespace="other") for pod in OLD)
    work.add(*others, replace(ALIVE, uid="o-uid-web", name="o-web", namespace="other"))
    await work.pass_by(30)

    assert work.results()["forbidden"] == 1
    assert work.log.of("refused.forbidden")[0]["namespace"] == TEAM
    assert "o-r0" not in work.pods


async def test_defect_of_ours_ends_nothing_and_delays_no_pod(work: RemovalReplica) -> None:
    work.keep = 2
    work.observed["odd"] = cast("PodInfo", None)
    work.broken["get", "r0"] = DEFECT
    await work.pass_by(AGAIN_SECONDS / 2)
    assert len(work.log.of("refused.internal_error")) == 1

    del work.observed["odd"]
    await work.pass_by(AGAIN_SECONDS)
    assert [line.get("pod") for line in work.log.of("refused.internal_error")] == [None, "team/r0"]
    assert work.deleted() == ["r1"]


@pytest.mark.parametrize(("checks", "calls"), [(0, 0), (1, 0), (2, 3)])
async def test_lead_is_checked_before_reading_and_deleting(
    work: RemovalReplica, checks: int, calls: int
) -> None:
    work.leads_for = checks
    await work.pass_by(1000)
    assert (work.deleted(), len(work.calls)) == ([], calls)

    # The next leader deletes nothing twice.
    work.leads_for = 1000
    await work.pass_by(AGAIN_SECONDS)
    work.sync()
    with work.running(work.remover(registry=CollectorRegistry()).run):
        await work.pass_by(100)
    assert (work.deleted(), len(work.events)) == (["r0"], 1)
