"""The results about pods and nodes that are reported."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from controller.reports.offenders import OffenderReports
from controller.reports.policy_report import ReportEntry
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.pod_informer import PodInformer
from tests.unit.controller.healing.conftest import ROOMY, SPREAD, TOGETHER, Cluster, Leader, web
from tests.worlds.scorer import TEAM, Raw, raw, uid, wall


class Offending:
    """A cluster with one node, and its reports."""

    def __init__(self, **labels: str) -> None:
        self.cluster = Cluster({"a": ROOMY}, namespaces={TEAM: labels})
        leader = Leader(self.cluster)
        own: dict[str, Any] = {"log": leader.log.log, "registry": CollectorRegistry()}
        state, now = leader.state, partial(wall, self.cluster.time)
        leader.pods = PodInformer(state, state.reader, recreated=RecreatedScheduling(), **own)
        self.offenders = OffenderReports(state=state, unknown_may_fit=True, wall=now)

    async def entries(self, namespace: str = TEAM) -> list[ReportEntry]:
        await self.cluster.publish()
        reports = await self.offenders.reports()
        assert reports is not None
        return [*reports[namespace].entries()] if namespace in reports else []

    async def outcomes(self, namespace: str = TEAM) -> Mapping[str, dict[str, str]]:
        """The outcome of each rule, by the name of an object."""
        result: dict[str, dict[str, str]] = {}
        for entry in await self.entries(namespace):
            result.setdefault(entry.resource["name"], {})[str(entry.rule)] = str(entry.outcome)
        return result


def lax(name: str = "lax") -> Raw:
    return raw("cpu=2 mem=1Gi", name=name, policy=None)


async def test_partly_aligned_pod_has_the_reason_in_its_results() -> None:
    work = Offending()
    work.cluster.run(raw("cpu=500m mem=1Gi", policy="restricted"), "a", {"node-0": "mem=1Gi"})

    reason = (
        'restricted applies to memory only: cpu is not pinned, because container "c0" requests 500m cpu,'
        " which is not a whole number"
    )
    results = {entry.rule: (entry.outcome, entry.message) for entry in await work.entries()}
    assert results == {"aligned": ("pass", reason), "admitted-today": ("warn", reason)}


async def test_reports_follow_pods_and_labels() -> None:
    work = Offending()
    work.cluster.run(web("web"), "a", SPREAD)
    assert (await work.outcomes())["web"]["aligned"] == "fail"

    work.cluster.observe(uid("web"), "a", TOGETHER)
    assert (await work.outcomes())["web"]["aligned"] == "pass"

    work.cluster.drop(TEAM, "web")
    work.cluster.run(lax(), "a", {})
    assert await work.outcomes() == {}

    work.cluster.namespaces = {TEAM: {"enforce": "restricted"}}
    assert await work.outcomes() == {"lax": {"level-enforce": "fail", "admitted-today": "fail"}}
    assert await work.outcomes("") == {"a": {"topology": "pass"}}


async def test_unknown_cluster_has_no_reports() -> None:
    assert await Offending().offenders.reports() is None
