"""Where Kueue itself chooses nodes, by their totals (Topology Aware Scheduling): what works, what cannot."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.system.e2e.placing import why
from tests.system.ecosystem import queues as kueue
from tests.system.ecosystem.nodes import POOL
from tests.system.ecosystem.queues import HOST, Queues
from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE
from tests.system.workloads.stages import Stage
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONE_HOST = {"kueue.x-k8s.io/podset-required-topology": HOST}
WIDE = 4


@pytest.mark.usefixtures("scored")
async def test_with_the_scorer_a_pod_waits_for_a_zone_of_its_host(queues: Queues) -> None:
    stage = queues.ours.stage
    by_scorer = {"numalign.io/scheduler": "numalign-scheduler"}
    async with queues.home("racked", by_scorer, on={POOL: "a"}, cpus=WIDE, topology=True) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=WIDE, annotations=ONE_HOST))
        pod = await until_pending(stage, home, "train")
        await stage.unblock(home, "strict-1")
        [runs] = await stage.until_running(home, "train", 1)

    assert pod["spec"]["nodeSelector"] == {POOL: "a", HOST: "strict-1"}
    assert f"1 node(s) have no NUMA zone with {WIDE} cpu free" in why(pod)
    assert (runs["metadata"]["uid"], runs["spec"]["nodeName"]) == (pod["metadata"]["uid"], "strict-1")


async def test_kueue_sees_excluded_classes_only_in_pods(queues: Queues) -> None:
    """The webhook adds its affinity to pods, and Kueue chooses the host of a Job before it has any."""
    stage = queues.ours.stage
    async with queues.home("assigned", {}, on={POOL: "b"}, cpus=2 * WIDE, topology=True) as home:
        await stage.store.apply(kueue.pod(home, "alone", cpus=WIDE, annotations=ONE_HOST))
        [alone] = await stage.until_running(home, "alone", 1)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=WIDE, annotations=ONE_HOST))
        pod = await until_pending(stage, home, "train")

    assert alone["spec"]["nodeName"] == "large-1"
    # Its zones are too small, and the pod is for no other node.
    assert pod["spec"]["nodeSelector"][HOST] == "small-1"
    assert "didn't match Pod's node affinity/selector" in why(pod)


async def test_behind_the_gate_a_pod_waits_for_a_zone_of_its_host(queues: Queues) -> None:
    stage = queues.ours.stage
    async with queues.home("hosted", {GATE: "enabled"}, on={POOL: "a"}, cpus=WIDE, topology=True) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=WIDE, annotations=ONE_HOST))
        await queues.until(home, "train", "Admitted")
        pod = await only(stage, home, "train", lambda pod: HOST in pod["spec"].get("nodeSelector", {}))
        reason = await stage.until_event(home, pod["metadata"]["name"], "NUMAGateKept", "NUMAGateLifted")
        assert reason == "NUMAGateKept"
        await stage.unblock(home, "strict-1")
        [runs] = await stage.until_running(home, "train", 1)

    assert pod["spec"]["nodeSelector"][HOST] == "strict-1"
    assert runs["metadata"]["uid"] == pod["metadata"]["uid"]
    workloads.assert_pinned([runs])


async def test_kueue_sees_classes_that_are_excluded_in_jobs(queues: Queues) -> None:
    stage = queues.ours.stage
    labels = {"numalign.io/job-affinity": "enabled"}
    async with queues.home("informed", labels, on={POOL: "b"}, cpus=WIDE, topology=True) as home:
        await stage.store.apply(kueue.job(home, "train", 1, cpus=WIDE, annotations=ONE_HOST))
        [pod] = await stage.until_running(home, "train", 1)
    assert pod["spec"]["nodeSelector"][HOST] == "large-1"


async def until_pending(stage: Stage, home: str, of: str) -> Json:
    """The only pod of a workload, once a scheduler said why it has no node."""
    return await only(stage, home, of, lambda pod: "nodes are available" in why(pod))


async def only(stage: Stage, home: str, of: str, right: Callable[[Json], bool]) -> Json:
    [pod] = await eventually(
        partial(stage.pods, home, of), lambda pods: [*map(right, pods)] == [True], f"{of} had its pod"
    )
    return pod
