"""Kubeflow's Trainer makes a JobSet of a TrainJob and its runtime: what stands in either reaches the pods."""

from collections.abc import Mapping
from functools import partial

import pytest

from tests.system.ecosystem.nodes import IMPOSSIBLE, POOL
from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, Numalign
from tests.system.workloads.workloads import INTENT, WIDE
from tools.clusters.api_requests import Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("training")]

VERSION = "trainer.kubeflow.org/v1alpha1"
OWN, CLUSTERS = "TrainingRuntime", "ClusterTrainingRuntime"
NODE = "node"
"""The name of the training nodes, and of their container, that the Trainer looks for."""


async def test_pods_have_the_policy_of_their_runtime_or_patch(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("trained", {GATE: "enabled"}) as home:
        for document in (
            runtime(OWN, home, "own", INTENT),
            train_job(home, "own", OWN),
            runtime(CLUSTERS, "", "everyones", INTENT),
            train_job(home, "everyones", CLUSTERS),
            runtime(OWN, home, "patched", {}),
            train_job(home, "patched", OWN, runtimePatches=[patch(INTENT)]),
        ):
            await stage.store.apply(document)
        for name in ("own", "everyones", "patched"):
            await stage.until_running(home, name, 1)
        pods = [pod for name in ("own", "everyones", "patched") for pod in await stage.pods(home, name)]

    assert [INTENT.items() <= pod["metadata"]["annotations"].items() for pod in pods] == [True] * 3
    workloads.assert_pinned(pods)


async def test_impossible_train_job_warns_at_apply(ours: Numalign) -> None:
    stage = ours.stage
    resources = {"limits": {"cpu": str(IMPOSSIBLE), "memory": "64Mi"}}
    async with stage.home("untrained", {}) as home:
        await stage.store.apply(runtime(OWN, home, "plain", {}))
        job = train_job(home, "plain", OWN, trainer={"resourcesPerNode": resources})
        job["spec"]["runtimePatches"] = [patch(INTENT)]
        answers = {
            document["kind"]: await stage.store.try_to_apply(document, dryRun="All")
            for document in (
                runtime(OWN, home, "wide", INTENT, cpus=IMPOSSIBLE),
                runtime(CLUSTERS, "", "wide", INTENT, cpus=IMPOSSIBLE),
                job,
            )
        }

    template = "replicatedJobs[0].template.spec.template"
    for kind, where in ((OWN, template), (CLUSTERS, template), ("TrainJob", "numalign: spec.trainer")):
        text = f"{where}: no node can align the pod as single-numa-node"
        assert any(text in warning for warning in answers[kind].warnings), answers[kind]


def runtime(kind: str, home: str, name: str, annotations: Mapping[str, str], *, cpus: int = WIDE) -> Json:
    """A runtime of one training node, in a namespace if its kind has one."""
    wish = workloads.template(name, on={POOL: "a"}, cpus=cpus, restart="Never")
    wish["metadata"]["annotations"] = {**annotations}
    wish["spec"]["containers"][0]["name"] = NODE
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"name": NODE, "template": {"metadata": {"labels": labels}, "spec": {"template": wish}}}
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}}
    metadata = {"name": name, **({"namespace": home} if home else {})}
    return {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def train_job(home: str, name: str, runtime_kind: str, **spec: object) -> Json:
    reference = {"name": name, "kind": runtime_kind}
    metadata = {"namespace": home, "name": name}
    return {
        "apiVersion": VERSION,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {"runtimeRef": reference, **spec},
    }


def patch(annotations: Mapping[str, str]) -> Json:
    """What a TrainJob changes in its runtime: annotations of its training nodes."""
    template = {"metadata": {"annotations": dict(annotations)}}
    job = {"name": NODE, "template": {"spec": {"template": template}}}
    return {
        "manager": "example.com/team",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }


@pytest.mark.usefixtures("ray")
async def test_head_and_workers_of_a_ray_cluster_are_pinned(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("ray", {GATE: "enabled"}) as home:
        await stage.store.apply(cluster(home, "ray"))
        pods = await eventually(
            partial(stage.pods, home, "ray"),
            lambda pods: ["nodeName" in pod["spec"] for pod in pods] == [True, True],
            "head and worker had nodes",
        )

    assert {pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods} == {"head", "worker"}
    workloads.assert_pinned(pods)


def cluster(home: str, name: str) -> Json:
    """A RayCluster of a head and a worker, both with an intent."""
    wish = workloads.template(name, on={POOL: "a"}, cpus=WIDE)
    group = {"rayStartParams": {}, "template": wish}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"namespace": home, "name": name},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": group,
            "workerGroupSpecs": [
                {"groupName": "workers", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, **group}
            ],
        },
    }
