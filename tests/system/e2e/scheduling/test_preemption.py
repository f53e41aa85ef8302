"""Preemption for a zone, by a kube-scheduler that lets an extender name victims.

It is newer than the API server here, which no cluster should be: of its programs only this one is built.
"""

from pathlib import Path

import pytest

from tests.system.e2e.placing import NODES, Cluster, Running
from tools.clusters.api_requests import INTENT, gpus
from tools.clusters.builds import KUBE_SCHEDULER

VERSION = KUBE_SCHEDULER.release
PROGRAM = KUBE_SCHEDULER.cache(VERSION, "kube-scheduler")

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not PROGRAM.is_file(),
        reason=f"needs kube-scheduler {VERSION}: `python -m tools.clusters.builds kube-scheduler`",
    ),
]

PRIORITIES = {"urgent": 1000, "usual": 20, "idle": 10}
OLDEST = 34
"""The first minor version that serves all kinds that this scheduler watches."""


@pytest.fixture(scope="module")
def binary(minor: int) -> Path:
    if minor < OLDEST:
        pytest.skip(f"kube-scheduler {VERSION} needs Kubernetes 1.{OLDEST}, not 1.{minor}")
    return PROGRAM


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    """It watches no kinds that this API server does not have."""
    return ("--emulated-version=kube=1.36",)


@pytest.mark.usefixtures("scorer")
async def test_least_important_pod_is_evicted_for_its_zone(tidy: Cluster, second: Running) -> None:
    """Each zone of each node has a pod and a free device, so that the node has two, and no zone has."""
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in PRIORITIES.items():
        await tidy.store.apply({**about, "metadata": {"name": name}, "value": value})
    names = ["usual-1", "usual-2", "idle", "usual-3"]
    for name in names:
        await pod(tidy, second, name, cpus=9, devices=3)
        await tidy.until_running(name)
    places = {name: (await tidy.pod(name))["spec"]["nodeName"] for name in names}
    assert sorted(places.values()) == sorted([*NODES] * 2)

    await pod(tidy, second, "urgent", cpus=4, devices=2)

    seen = await tidy.until_bound("urgent", within=60)
    assert seen["spec"]["nodeName"] == places["idle"]
    left = {each["metadata"]["name"] for each in await tidy.store.list("v1", "Pod")}
    assert left == {*names, "urgent"} - {"idle"}


async def pod(cluster: Cluster, by: Running, name: str, *, cpus: int, devices: int) -> None:
    """A pod of the priority that its name begins with; it goes at once when it is deleted."""
    await cluster.create(
        name,
        scheduler=by.name,
        asks={**gpus(devices), "cpu": str(cpus)},
        annotations=INTENT,
        priorityClassName=name.partition("-")[0],
        terminationGracePeriodSeconds=0,
    )
