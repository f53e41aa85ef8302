"""Every writer of the controller survives every fault of the API server: logged, counted, and tried again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest

from controller.healing.eviction_limits import Rates
from numalign.model.intent import ALIGNED
from tests.unit.controller.gates.conftest import GatedCluster, gated
from tests.unit.controller.healing.conftest import SPREAD, Cluster, Leader, web
from tests.unit.controller.pods import refused, running
from tests.unit.controller.refused.test_remover import RemovalReplica
from tests.unit.controller.reports.conftest import ReportReplica, Reports, entry, report
from tests.unit.controller.reports.test_owner_events import DEPLOYMENT, OwnerWarning, pod
from tests.unit.controller.test_labels import Labelling, labelling
from tests.unit.controller.test_shapes import SMALL, ShapeReplica
from tests.worlds import write_faults as faults
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.scorer import EMPTY, FOUR, TEAM
from tests.worlds.write_faults import FORBIDDEN, HANG, FaultyApi


@dataclass(frozen=True)
class Writing:
    """A writer that runs, and whether it has written."""

    api: FaultyApi
    pass_by: Callable[[float], Awaitable[object]]
    written: Callable[[], object]
    log: RecordedLog
    count: Callable[..., float]


@asynccontextmanager
async def labels() -> AsyncIterator[Writing]:
    work = Labelling()
    work.add("a")
    api = FaultyApi(work, "patch")

    with labelling(work, api):
        yield Writing(api, work.run, lambda: work.labels["a"], work.log, work.count)


@asynccontextmanager
async def shapes() -> AsyncIterator[Writing]:
    api = FaultyApi(None, "create")
    work = ShapeReplica(api=api)
    api.api = work.configmap
    work.observe("a", SMALL)
    with work.running(work.writer.run):
        yield Writing(api, work.pass_by, lambda: work.configmap.writes, work.log, work.count)


@asynccontextmanager
async def pins() -> AsyncIterator[Writing]:
    api = FaultyApi(None, "patch")
    cluster = GatedCluster(api=api, patience=0)
    api.api = cluster
    await cluster.know({"a": EMPTY})
    async with cluster.running(gated(FOUR)):
        yield Writing(api, cluster.pass_by, cluster.pin, cluster.log, cluster.count)


async def healing(verb: str) -> tuple[FaultyApi, Leader]:
    cluster = Cluster()
    cluster.run(web("web-1"), "a", SPREAD)
    api = FaultyApi(cluster, verb)
    leader = Leader(cluster, api=api, rates=Rates(0, 0, 0))
    await cluster.publish()
    return api, leader


@asynccontextmanager
async def marks() -> AsyncIterator[Writing]:
    api, leader = await healing("patch")

    async def turns(seconds: float) -> None:
        for _ in range(int(seconds)):
            leader.cluster.time.seconds += 1
            await leader.marks.turn()

    def written() -> object:
        return leader.cluster.pods[TEAM, "web-1"]["metadata"]["annotations"].get(ALIGNED)

    yield Writing(api, turns, written, leader.log, leader.count)


@asynccontextmanager
async def evictions() -> AsyncIterator[Writing]:
    api, leader = await healing("create")
    yield Writing(api, leader.turns, lambda: leader.cluster.evicted, leader.log, leader.count)


@asynccontextmanager
async def deletions() -> AsyncIterator[Writing]:
    work = RemovalReplica(keep=0)
    work.add(refused("r0", 0), running("web", 9))
    api = FaultyApi(work, "delete")
    with work.running(work.remover(api).run):
        yield Writing(api, work.pass_by, work.deleted, work.log, work.count)


@asynccontextmanager
async def reports() -> AsyncIterator[Writing]:
    stored = Reports()
    api = FaultyApi(stored, "patch")
    work = ReportReplica(api=api)
    work.want(report(entry("a")))
    with work.running(work.writer().run):
        yield Writing(api, work.pass_by, lambda: stored.stored, work.log, work.count)


@asynccontextmanager
async def owner_events() -> AsyncIterator[Writing]:
    """Each second, another ReplicaSet of the Deployment creates a pod."""
    work = OwnerWarning(api=(api := FaultyApi(None, "get")))
    api.api = work

    async def run(seconds: float) -> None:
        for _ in range(int(min(seconds, 5))):
            name = f"set-{work.cluster.version}"
            metadata = {"name": name, "uid": f"uid-of-{name}", "ownerReferences": [DEPLOYMENT]}
            work.stored = {"metadata": metadata}
            work.clock.seconds += 1
            await work.create(pod(f"of-{name}", name), turns=0)
            await work.pass_by(1)

    def written() -> bool:
        return bool(work.events) and work.events[-1].kind == "Deployment"

    with work.running(work.owner_events.run):
        yield Writing(api, run, written, work.log, work.count)


@dataclass(frozen=True)
class Writer:
    """A writer, and its time limit. Under a fault it calls `most` times in 100 s.

    Both pairs are about forbidden and failed writes. With `guarded`, a defect of ours is logged.
    """

    start: Callable[[], AbstractAsyncContextManager[Writing]]
    events: str
    metric: str
    limit: str
    most: int
    guarded: bool
    outcomes: tuple[str, str] = ("forbidden", "failed")
    counts: tuple[str, str] = ("forbidden", "failed")

    def event(self, which: int) -> str:
        return f"{self.events}.{self.outcomes[which]}"

    def counted(self, work: Writing, which: int) -> float:
        metric, label = self.metric.split("/")
        return work.count(metric, **{label: self.counts[which]})


WRITERS = {
    "labels": Writer(labels, "class", "class_writes_total/result", "labels.PATCH_SECONDS", 4, guarded=False),
    "shapes": Writer(shapes, "shapes", "shape_writes_total/result", "shapes.ANSWER_SECONDS", 3, guarded=True),
    "pins": Writer(pins, "gate", "gate_failures_total/reason", "gates.pods.BIND_SECONDS", 100, guarded=True),
    "marks": Writer(marks, "mark", "alignment_marks_total/result", "healing.marks.PATCH_SECONDS", 3,
                    guarded=False),
    "evictions": Writer(evictions, "healing", "healing_moves_total/outcome",
                        "healing.evictions.EVICT_SECONDS", 3, guarded=False,
                        outcomes=("forbidden", "unanswered"), counts=("refused", "unknown")),
    "deletions": Writer(deletions, "refused", "refused_pod_removals_total/result",
                        "refused.remover.CALL_SECONDS", 3, guarded=True),
    "reports": Writer(reports, "report", "report_writes_total/result", "reports.writer.ANSWER_SECONDS", 3,
                      guarded=True),
    "owner events": Writer(owner_events, "owner", "", "reports.owner_events.READ_SECONDS", 10,
                           guarded=True, outcomes=("forbidden", "unreadable")),
}  # fmt: skip
ALL = pytest.mark.parametrize("writer", WRITERS.values(), ids=[*WRITERS])


async def recover(work: Writing) -> None:
    """Without a fault, the write succeeds within the longest pause."""
    work.api.fault = None
    for _ in range(100):
        await work.pass_by(20)
        if work.written():
            return
    pytest.fail("it was never written")


@ALL
async def test_forbidden_write_is_logged_once(writer: Writer) -> None:
    """With what the API server answers, which names the missing rule."""
    async with writer.start() as work:
        work.api.fault = FORBIDDEN
        await work.pass_by(500)

        assert not work.written()
        [line] = work.log.of(writer.event(0))
        assert line["error"] == str(FORBIDDEN)
        assert work.log.of(writer.event(1)) == []
        assert work.api.calls >= 2
        assert not writer.metric or writer.counted(work, 0) == work.api.calls
        await recover(work)


FAILURES = [faults.UNREACHABLE, faults.FAILING, HANG]


@pytest.mark.parametrize("fault", FAILURES, ids=["unreachable", "500", "hang"])
@ALL
async def test_failing_server_gets_few_calls(
    writer: Writer, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writer.start() as work:
        work.api.fault = fault
        with monkeypatch.context() as patch:
            if fault is HANG:
                patch.setattr(f"controller.{writer.limit}", 0)
            await work.pass_by(100)

        assert not work.written()
        line, *_ = work.log.of(writer.event(1))
        assert ("did not answer within 0 s" if fault is HANG else str(fault)) in line["error"]
        assert 1 <= work.api.calls <= writer.most
        assert not writer.metric or writer.counted(work, 1) == work.api.calls
        await recover(work)


@pytest.mark.parametrize("fault", [faults.CONFLICT, faults.GONE, faults.INVALID], ids=["409", "404", "422"])
@ALL
async def test_denied_write_is_tried_again(writer: Writer, fault: Exception) -> None:
    async with writer.start() as work:
        work.api.fault = fault
        await work.pass_by(100)

        assert not work.written()
        assert work.api.calls >= 1
        await recover(work)


@pytest.mark.parametrize("writer", table([each for each in WRITERS.items() if each[1].guarded]))
async def test_defect_of_ours_is_logged_and_ends_nothing(writer: Writer) -> None:
    async with writer.start() as work:
        work.api.fault = faults.DEFECT
        await work.pass_by(100)

        assert not work.written()
        assert [line for line in work.log.lines() if line["event"].endswith(".internal_error")]
        await recover(work)
