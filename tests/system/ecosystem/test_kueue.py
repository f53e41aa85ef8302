"""Kueue decides when a workload starts, and numalign where; neither waits for the other."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.system.e2e.placing import why
from tests.system.ecosystem import queues as kueue
from tests.system.ecosystem.nodes import IMPOSSIBLE, POOL, Denying
from tests.system.ecosystem.queues import HOST, Queues
from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE
from tests.system.workloads.stages import EACH, Stage
from tests.system.workloads.workloads import WIDE
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

GATED = {GATE: "enabled"}
POOL_A = {POOL: "a"}
OURS = "numalign.io/placement"
QUOTA = "kueue.x-k8s.io/admission"
"""Gates of pods."""


async def test_patience_begins_when_kueue_admits_a_pod(queues: Queues) -> None:
    """Another pod, made later, waits in vain for a zone and is released: that takes the whole patience."""
    stage = queues.ours.stage
    async with queues.home("patience", GATED, on=POOL_A, cpus=WIDE) as home:
        await stage.block(home, "strict-1", "strict-2", "large-1", cpus=EACH - WIDE)
        first, second = (kueue.pod(home, name, cpus=WIDE) for name in ("first", "second"))
        await stage.store.apply(first)
        await stage.until_running(home, "first", 1)
        await stage.store.apply(second)
        await stage.store.apply(kueue.bare(home, "in-vain", cpus=2 * WIDE))
        await stage.until_event(home, "in-vain", "NUMAGateLifted")
        held = await stage.read(second)
        await stage.store.delete(first)
        pods = await stage.until_running(home, "second", 1)

    assert {OURS, QUOTA} <= {gate["name"] for gate in held["spec"]["schedulingGates"]}
    assert "numalign.io/pinned-at" not in held["metadata"]["annotations"]
    workloads.assert_pinned(pods)


async def test_pods_of_a_group_keep_their_roles(queues: Queues) -> None:
    """Kueue admits a group only if each pod is as it was when Kueue saw it first, affinity included."""
    stage = queues.ours.stage
    group = {"kueue.x-k8s.io/pod-group-name": "group"}
    count = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    async with queues.home("group", GATED, on=POOL_A, cpus=6) as home:
        for name, cpus in (("driver", 1), ("worker", 5)):
            wish = workloads.ending(kueue.bare(home, name, cpus=cpus, annotations=count), seconds=1)
            await stage.store.apply(kueue.queued(wish, **group))

        async def members() -> list[Json]:
            return [pod for name in ("driver", "worker") for pod in await stage.pods(home, name)]

        pods = await eventually(
            members,
            lambda pods: [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 2,
            "both pods had run",
        )

    workloads.assert_pinned(pods)


async def test_kueue_admits_deployment_pods_one_by_one(queues: Queues) -> None:
    stage = queues.ours.stage
    async with queues.home("serving", GATED, on=POOL_A, cpus=6) as home:
        web = kueue.queued(workloads.deployment(home, "web", 1, workloads.template("web", on={})))
        db = kueue.queued(workloads.statefulset(home, "db", 2, workloads.template("db", on={})))
        db["spec"]["podManagementPolicy"] = "OrderedReady"
        for document in (web, db):
            await stage.store.apply(document)
        await stage.until_running(home, "web", 1)
        await stage.until_running(home, "db", 2)
        pods = [pod for name in ("web", "db") for pod in await stage.pods(home, name)]

    workloads.assert_pinned(pods)


async def test_preempting_job_gets_the_zones_of_its_victim(queues: Queues) -> None:
    stage = queues.ours.stage
    about = {"apiVersion": kueue.VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}}
    await stage.store.apply({**about, "value": 100})
    async with queues.home("preempted", GATED, on=POOL_A, cpus=2 * WIDE) as home:
        # One place in each zone of one node is all that is left.
        await stage.block(home, "strict-1", cpus=EACH - WIDE)
        await stage.block(home, "strict-2", cpus=EACH)
        low = kueue.job(home, "low", 2, cpus=WIDE)
        high = kueue.job(home, "high", 2, cpus=WIDE)
        high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
        await stage.store.apply(low)
        await stage.until_running(home, "low", 2)
        await stage.store.apply(high)
        await stage.until_running(home, "high", 2)
        await eventually(partial(stage.pods, home, "low"), lambda pods: not pods, "low had ended")
        pods, suspended = await stage.pods(home, "high"), (await stage.read(low))["spec"]["suspend"]

    assert suspended
    # Of their flavor.
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [POOL_A] * 2
    workloads.assert_pinned(pods)


async def test_impossible_job_warns_and_holds_its_quota(queues: Queues) -> None:
    stage = queues.ours.stage
    async with queues.home("impossible", {}, on=POOL_A, cpus=IMPOSSIBLE) as home:
        answer = await stage.store.try_to_apply(kueue.job(home, "train", 1, cpus=IMPOSSIBLE))
        await stage.until_event(home, "train", "FailedCreate")
        conditions = await queues.conditions(home, "train")
    assert any("no node can align" in warning for warning in answer.warnings)
    assert conditions["Admitted"] == "True"


async def test_a_job_that_its_flavor_cannot_align_is_started(queues: Queues, denies: Denying) -> None:
    stage = queues.ours.stage
    small = {"kubernetes.io/hostname": "small-1"}
    async with queues.home("flavored", {}, on=small, cpus=8) as home:
        await denies.begin(home)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=5))
        await queues.until(home, "train", "Admitted")

        async def seen() -> tuple[list[str], set[str]]:
            events = [each for each in await stage.events(home) if each["involvedObject"]["kind"] == "Job"]
            return queues.denials(home), {each["reason"] for each in events}

        denials, reasons = await eventually(
            seen, lambda seen: bool(seen[0]) or "SuccessfulCreate" in seen[1], "the Job started or was denied"
        )

    assert denials == []
    assert "SuccessfulCreate" in reasons


async def test_an_evicted_job_returns_its_quota(queues: Queues, denies: Denying) -> None:
    async with queues.home("evicted", {}, on={POOL: "a"}, cpus=IMPOSSIBLE) as home:
        await queues.ours.stage.store.apply(kueue.job(home, "train", 1, cpus=IMPOSSIBLE))
        await queues.until(home, "train", "Admitted")
        await denies.begin(home)
        name = (await queues.workload(home, "train"))["metadata"]["name"]
        inactive = kueue.made("Workload", name, {"active": False}, namespace=home)
        await queues.ours.stage.store.apply(inactive)
        await queues.until(home, "train", "Evicted")
        conditions = await eventually(
            partial(queues.conditions, home, "train"),
            lambda seen: bool(queues.denials(home)) or seen["QuotaReserved"] == "False",
            "the quota was returned, or that was denied",
        )
        denials = queues.denials(home)

    assert denials == []
    assert conditions["QuotaReserved"] == "False"


ONE_HOST = {"kueue.x-k8s.io/podset-required-topology": HOST}
BROAD = 4


@pytest.mark.usefixtures("scored")
async def test_with_the_scorer_a_pod_waits_for_a_zone_of_its_host(queues: Queues) -> None:
    stage = queues.ours.stage
    by_scorer = {"numalign.io/scheduler": "numalign-scheduler"}
    async with queues.home("racked", by_scorer, on={POOL: "a"}, cpus=BROAD, topology=True) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=BROAD, annotations=ONE_HOST))
        pod = await only(stage, home, "train", lambda pod: "nodes are available" in why(pod))
        await stage.unblock(home, "strict-1")
        [runs] = await stage.until_running(home, "train", 1)

    assert pod["spec"]["nodeSelector"] == {POOL: "a", HOST: "strict-1"}
    assert f"1 node(s) have no NUMA zone with {BROAD} cpu free" in why(pod)
    assert (runs["metadata"]["uid"], runs["spec"]["nodeName"]) == (pod["metadata"]["uid"], "strict-1")


async def test_kueue_sees_excluded_classes_only_in_pods(queues: Queues) -> None:
    """The webhook adds its affinity to pods, and Kueue chooses the host of a Job before it has any."""
    stage = queues.ours.stage
    async with queues.home("assigned", {}, on={POOL: "b"}, cpus=2 * BROAD, topology=True) as home:
        await stage.store.apply(kueue.pod(home, "alone", cpus=BROAD, annotations=ONE_HOST))
        [alone] = await stage.until_running(home, "alone", 1)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=BROAD, annotations=ONE_HOST))
        pod = await only(stage, home, "train", lambda pod: "nodes are available" in why(pod))

    assert alone["spec"]["nodeName"] == "large-1"
    # Its zones are too small, and the pod is for no other node.
    assert pod["spec"]["nodeSelector"][HOST] == "small-1"
    assert "didn't match Pod's node affinity/selector" in why(pod)


async def test_behind_the_gate_a_pod_waits_for_a_zone_of_its_host(queues: Queues) -> None:
    stage = queues.ours.stage
    async with queues.home("hosted", {GATE: "enabled"}, on={POOL: "a"}, cpus=BROAD, topology=True) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=BROAD, annotations=ONE_HOST))
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
    async with queues.home("informed", labels, on={POOL: "b"}, cpus=BROAD, topology=True) as home:
        await stage.store.apply(kueue.job(home, "train", 1, cpus=BROAD, annotations=ONE_HOST))
        [pod] = await stage.until_running(home, "train", 1)
    assert pod["spec"]["nodeSelector"][HOST] == "large-1"


async def only(stage: Stage, home: str, of: str, right: Callable[[Json], bool]) -> Json:
    [pod] = await eventually(
        partial(stage.pods, home, of), lambda pods: [*map(right, pods)] == [True], f"{of} had its pod"
    )
    return pod
