"""A gang, scheduled as a whole by the real kube-scheduler, on nodes with too few zones and with enough."""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from numalign.scheduling import reasons
from tests.system.e2e.own_planes import OwnPlane
from tests.system.e2e.placing import (
    NODES,
    Cluster,
    Replica,
    Running,
    cluster_of,
    is_bound,
    replica,
    second_scheduler,
)
from tests.system.eventually import eventually
from tools.clusters.api_requests import INTENT, ask, gpus
from tools.clusters.processes import Children, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")

GANG = [f"member-{at}" for at in range(4)]


class Served(NamedTuple):
    api: str
    gates: str


SERVED = {
    36: Served("scheduling.k8s.io/v1alpha2", "GenericWorkload=true,GangScheduling=true"),
    37: Served("scheduling.k8s.io/v1beta1", "GenericWorkload=true"),
}


@module_fixture()
async def served(minor: int) -> Served:
    if minor not in SERVED:
        versions = " or ".join(f"1.{each}" for each in SERVED)
        pytest.skip(f"needs pod groups as in Kubernetes {versions}, not as in 1.{minor}")
    return SERVED[minor]


@module_fixture()
async def cluster(own_plane: OwnPlane, served: Served) -> AsyncIterator[Cluster]:
    flags = (f"--feature-gates={served.gates}", f"--runtime-config={served.api}=true")
    async with cluster_of(own_plane, "groups", *flags) as running:
        yield running


@module_fixture()
async def grouping(
    children: Children, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, served: Served
) -> AsyncIterator[Running]:
    folder, gates = tmp_path_factory.mktemp("grouping"), f"--feature-gates={served.gates}"
    async with second_scheduler(children, cluster, folder, gates) as running:
        yield running


@module_fixture()
async def scorer(children: Children, kubeconfig: Path, grouping: Running) -> AsyncIterator[Replica]:
    running = await replica(children, kubeconfig, port=grouping.port, name="scorer-of-groups")
    await until(running.ready, what="the scorer was ready", child=running.child)
    yield running
    await running.child.end()


async def test_gang_is_bound_once_each_member_has_a_zone(
    tidy: Cluster, grouping: Running, scorer: Replica, served: Served
) -> None:
    """Nodes as a whole have room for two members each, but as long as others run there one zone has."""
    assert scorer.child.running()
    for name in NODES:
        await pod(tidy, grouping, f"other-{name}", nodeSelector={"kubernetes.io/hostname": name})
        await tidy.until_running(f"other-{name}")
    gang = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": len(GANG)}}}}
    groups = f"/apis/{served.api}/namespaces/default/podgroups"
    answer = await ask(tidy.api, "POST", groups, gang)
    assert answer.code == HTTPStatus.CREATED, answer.body
    for name in GANG:
        await pod(tidy, grouping, name, schedulingGroup={"podGroupName": "gang"})

    await tidy.until_unplaced(GANG[2], reasons.POD_GROUP.removeprefix("node(s) "))
    assert await nodes(tidy) == {}

    for name in NODES:
        await ask(tidy.api, "DELETE", f"/api/v1/namespaces/default/pods/other-{name}")
    await eventually(
        partial(nodes, tidy), lambda found: found == dict.fromkeys(NODES, 2), "all members were bound"
    )


async def nodes(cluster: Cluster) -> dict[str, int]:
    bound = [name for name in GANG if is_bound(await cluster.pod(name))]
    running = [await cluster.run(name) for name in bound]
    return dict(Counter(each["spec"]["nodeName"] for each in running))


async def pod(cluster: Cluster, by: Running, name: str, **spec: object) -> None:
    """A pod that needs more than half of a zone; it goes at once when it is deleted."""
    asks = {**gpus(1), "cpu": "9"}
    await cluster.create(
        name, scheduler=by.name, asks=asks, annotations=INTENT, terminationGracePeriodSeconds=0, **spec
    )
