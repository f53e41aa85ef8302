"""What is to be reported of the pods and nodes of a cluster."""

from collections.abc import Mapping
from functools import partial

from controller.reports.offenders import OffenderReports
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.pod_informer import PodInformer
from numalign.scheduling.scheduler_state import SchedulerState
from tests.unit.controller.healing.conftest import ROOMY, SPREAD, TOGETHER, Cluster, Leader, web
from tests.worlds.scorer import TEAM, raw, uid, wall


class Site:
    """A cluster with one node, and what is to be reported of it."""

    def __init__(self, **labels: str) -> None:
        self.cluster = Cluster({"a": ROOMY}, namespaces={TEAM: labels})
        self.leader = Leader(self.cluster)
        state: SchedulerState = self.leader.state
        self.leader.pods = PodInformer(
            state,
            state.reader,
            recreated=RecreatedScheduling(),
            log=self.leader.told.log,
            registry=type(self.leader.registry)(),
        )
        self.offenders = OffenderReports(
            state=state, unknown_may_fit=True, wall=partial(wall, self.cluster.time)
        )

    async def outcomes(self, namespace: str = TEAM) -> Mapping[str, dict[str, str]]:
        """By name of an object what comes of each rule."""
        await self.cluster.publish()
        reports = await self.offenders.reports()
        assert reports is not None
        shown: dict[str, dict[str, str]] = {}
        for entry in reports[namespace].entries() if namespace in reports else ():
            shown.setdefault(entry.resource["name"], {})[str(entry.rule)] = str(entry.outcome)
        return shown


async def test_of_each_pod_what_comes_of_each_rule() -> None:
    site = Site(warn="restricted")
    await site.cluster.runs(web("good"), "a", TOGETHER)
    await site.cluster.runs(web("bad"), "a", SPREAD)
    await site.cluster.runs(raw("cpu=2 mem=1Gi", name="lax", policy=None), "a", {})
    await site.cluster.runs(web("huge", cpu=40), "a", {})

    assert await site.outcomes() == {
        "bad": {"aligned": "fail", "level-warn": "pass", "admitted-today": "pass"},
        "good": {"aligned": "pass", "level-warn": "pass", "admitted-today": "pass"},
        "huge": {"aligned": "skip", "level-warn": "pass", "admitted-today": "fail"},
        "lax": {"level-warn": "warn", "admitted-today": "pass"},
    }


async def test_of_a_pod_that_is_aligned_in_part_its_report_says_what_is_not() -> None:
    site = Site()
    await site.cluster.runs(
        raw("cpu=500m mem=1Gi", name="half", policy="restricted"), "a", {"node-0": "mem=1Gi"}
    )
    await site.cluster.publish()
    reports = await site.offenders.reports()
    assert reports

    said = {entry.rule: (entry.outcome, entry.message) for entry in reports[TEAM].entries()}

    partial = (
        'restricted applies to memory only: cpu is not pinned, because container "c0" requests 500m cpu,'
        " which is not a whole number"
    )
    assert said == {"aligned": ("pass", partial), "admitted-today": ("warn", partial)}


async def test_what_changes_is_seen() -> None:
    site = Site()
    await site.cluster.runs(web("web"), "a", SPREAD)
    assert (await site.outcomes())["web"]["aligned"] == "fail"

    site.cluster.observe(uid("web"), "a", TOGETHER)
    assert (await site.outcomes())["web"]["aligned"] == "pass"

    site.cluster.namespaces = {TEAM: {"enforce": "restricted"}}
    await site.cluster.runs(raw("cpu=2 mem=1Gi", name="lax", policy=None), "a", {})
    assert (await site.outcomes())["lax"]["level-enforce"] == "fail"

    site.cluster.drop(TEAM, "web")
    site.cluster.drop(TEAM, "lax")
    assert await site.outcomes() == {}


async def test_where_nobody_asks_anything_nothing_is_reported() -> None:
    site = Site()
    await site.cluster.runs(raw("cpu=2 mem=1Gi", name="quiet", policy=None), "a", {})

    assert await site.outcomes() == {}


async def test_of_nodes_whether_their_topology_is_there() -> None:
    site = Site()

    assert await site.outcomes("") == {"a": {"topology": "pass"}}


async def test_before_anything_is_known_nothing_is_said() -> None:
    assert await Site().offenders.reports() is None
