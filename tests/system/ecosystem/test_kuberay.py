"""KubeRay makes pods of the templates of a RayCluster: what stands there reaches them."""

from functools import partial

import pytest

from tests.system.ecosystem.nodes import POOL
from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, Numalign
from tests.system.workloads.workloads import WIDE
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
