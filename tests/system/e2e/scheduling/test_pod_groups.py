"""A gang, scheduled as a whole by the real kube-scheduler, on nodes with too few zones and with enough."""

from collections import Counter
from functools import partial
from http import HTTPStatus

import pytest

from numalign.scheduling import node_answers
from tests.system.e2e.placing import NODES, Cluster, Running, is_bound
from tests.system.e2e.scheduling.conftest import GROUPS
from tests.system.eventually import eventually
from tools.clusters.api_requests import INTENT, ask, gpus

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

GANG = [f"member-{at}" for at in range(4)]


@pytest.fixture(scope="module")
def flags(minor: int) -> tuple[str, ...]:
    if minor not in GROUPS:
        versions = " or ".join(f"1.{each}" for each in GROUPS)
        pytest.skip(f"needs pod groups as in Kubernetes {versions}, not as in 1.{minor}")
    return (f"--feature-gates={GROUPS[minor][1]}",)


@pytest.mark.usefixtures("scorer")
async def test_gang_is_bound_once_each_member_has_a_zone(tidy: Cluster, second: Running, minor: int) -> None:
    """Nodes as a whole have room for two members each, but as long as others run there one zone has."""
    for name in NODES:
        await pod(tidy, second, f"other-{name}", nodeSelector={"kubernetes.io/hostname": name})
        await tidy.until_running(f"other-{name}")
    gang = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": len(GANG)}}}}
    groups = f"/apis/{GROUPS[minor][0]}/namespaces/default/podgroups"
    answer = await ask(tidy.api, "POST", groups, gang)
    assert answer.code == HTTPStatus.CREATED, answer.body
    for name in GANG:
        await pod(tidy, second, name, schedulingGroup={"podGroupName": "gang"})

    await tidy.until_unplaced(GANG[2], node_answers.POD_GROUP.removeprefix("node(s) "))
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
