"""Preemption for a zone, by a kube-scheduler that lets an extender name victims.

It is newer than the API server here, which no cluster should be: of its programs only this one is built.
"""

from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.e2e.placing import NODES, Cluster, Replica, Running, replica, second_scheduler
from tools.clusters import kubescheduler
from tools.clusters.api_requests import INTENT, ask, gpus
from tools.clusters.processes import Children, until

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not kubescheduler.PROGRAM.is_file(),
        reason=f"needs kube-scheduler {kubescheduler.VERSION}: `python -m tools.clusters.kubescheduler`",
    ),
]

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"urgent": 1000, "usual": 20, "idle": 10}

OLDEST = 34
"""The first minor version that serves all kinds that this scheduler watches."""


@module_fixture()
async def newest(
    children: Children, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, minor: int
) -> AsyncIterator[Running]:
    """`numalign-scheduler` of that version, which watches no kinds that this API server does not have."""
    if minor < OLDEST:
        pytest.skip(f"kube-scheduler {kubescheduler.VERSION} needs Kubernetes 1.{OLDEST}, not 1.{minor}")
    folder, older = tmp_path_factory.mktemp("newest"), "--emulated-version=kube=1.36"
    async with second_scheduler(children, cluster, folder, older, binary=kubescheduler.PROGRAM) as running:
        yield running


@module_fixture()
async def scorer(children: Children, kubeconfig: Path, newest: Running) -> AsyncIterator[Replica]:
    running = await replica(children, kubeconfig, port=newest.port, name="scorer-of-newest")
    await until(running.ready, what="the scorer was ready", child=running.child)
    yield running
    await running.child.end()


@module_fixture()
async def classes(published: Cluster) -> None:
    for name, value in PRIORITIES.items():
        made = {"metadata": {"name": name}, "value": value}
        answer = await ask(published.api, "POST", CLASSES, made)
        assert answer.code == HTTPStatus.CREATED, answer.body


@pytest.mark.usefixtures("classes")
async def test_least_important_pod_is_evicted_for_its_zone(
    tidy: Cluster, newest: Running, scorer: Replica
) -> None:
    """Each zone of each node has a pod and a free device, so that the node has two, and no zone has."""
    assert scorer.child.running()
    names = ["usual-1", "usual-2", "idle", "usual-3"]
    for name in names:
        await pod(tidy, newest, name, cpus=9, devices=3)
        await tidy.until_running(name)
    places = {name: (await tidy.pod(name))["spec"]["nodeName"] for name in names}
    assert sorted(places.values()) == sorted([*NODES] * 2)

    await pod(tidy, newest, "urgent", cpus=4, devices=2)

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
