"""The descheduler evicts pods from nodes that no longer suit them, and leaves those that numalign pinned."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from numalign.kube.client import Patch
from tests.system.ecosystem.nodes import POOL
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, Numalign
from tests.system.workloads.stages import EACH, Stage
from tools.clusters.api_requests import Json, patch

pytestmark = pytest.mark.asyncio(loop_scope="session")

GATED = {GATE: "enabled"}
POOL_A = {POOL: "a"}
LABEL = "desk"
"""Of a node, for pods that require it."""

Evict = Callable[[Json], Awaitable[list[str]]]


async def test_pinned_pods_stay_on_a_matching_node(ours: Numalign, evict: Evict) -> None:
    stage = ours.stage
    affinity = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    async with ours.home("labelled", GATED) as home:
        await label(stage, "strict-1", "yes")
        pinned = workloads.deployment(home, "pinned", 1, workloads.template("pinned", on=POOL_A, cpus=4))
        for document in (pinned, workloads.deployment(home, "plain", 1, plain(LABEL, "yes"))):
            await stage.store.apply(document)
            await stage.until_running(home, document["metadata"]["name"], 1)
        pods, [left] = [await stage.pods(home, name) for name in ("pinned", "plain")]
        await label(stage, "strict-1", None)
        await label(stage, "strict-2", "yes")
        evicted = await evict(profile("deschedule", "RemovePodsViolatingNodeAffinity", affinity))
        await label(stage, "strict-2", None)

    workloads.assert_pinned(pods)
    assert evicted == [f"{home}/{left['metadata']['name']}"]


async def test_node_fit_keeps_pinned_pods_on_a_crowded_node(ours: Numalign, evict: Evict) -> None:
    stage = ours.stage
    shares = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    async with ours.home("crowded", GATED) as home, stage.home("beside", {}) as beside:
        await stage.block(beside, "strict-2", cpus=EACH)
        pinned = workloads.deployment(home, "pinned", 4, workloads.template("pinned", on=POOL_A))
        for document in (pinned, workloads.deployment(home, "plain", 1, plain(POOL, "a"))):
            await stage.store.apply(document)
            await stage.until_running(home, document["metadata"]["name"], document["spec"]["replicas"])
        pods, [other] = [await stage.pods(home, name) for name in ("pinned", "plain")]
        await stage.unblock(beside, "strict-2")
        fit = await evict(profile("balance", "LowNodeUtilization", shares, nodeFit=True))
        unfit = await evict(profile("balance", "LowNodeUtilization", shares))

    workloads.assert_pinned(pods)
    assert fit == [f"{home}/{other['metadata']['name']}"]
    assert unfit
    assert {*unfit} <= {f"{home}/{pod['metadata']['name']}" for pod in pods}


def plain(key: str, value: str) -> Json:
    """A pod without an intent, that requires a label of its node."""
    wish = workloads.template("plain", on={})
    wish["metadata"]["annotations"] = {}
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wish["spec"]["affinity"] = {"nodeAffinity": required}
    return wish


async def label(stage: Stage, node: str, value: str | None) -> None:
    changed = {"metadata": {"labels": {LABEL: value}}}
    answer = await patch(stage.api, f"/api/v1/nodes/{node}", changed, how=Patch.MERGE)
    assert answer.code == HTTPStatus.OK, answer.body


def profile(point: str, plugin: str, args: Json, **evictor: object) -> Json:
    configured = (("DefaultEvictor", evictor), (plugin, args))
    return {
        "name": plugin,
        "pluginConfig": [{"name": name, "args": args} for name, args in configured],
        "plugins": {point: {"enabled": [plugin]}},
    }
