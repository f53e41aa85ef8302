"""Real kubelets do what was recorded of their managers: twenty at once, each on a machine of another kind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from tests.kubelet.machines import recordings
from tests.kubelet.machines.pods import MARKS, PODS, Json, remove, settled
from tests.worlds.opt_in import KUBELETS
from tools.clusters import builds
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealKubelet

pytestmark = MARKS

AT_ONCE = 20
MOST_BYTES = 4 << 30


@pytest.fixture(scope="module", params=builds.versions(builds.KUBELETS))
def scenarios(request: pytest.FixtureRequest) -> list[Json]:
    return recordings.of_each_kind(request.param)[:AT_ONCE]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(scenarios: list[Json]) -> AsyncIterator[RealCluster]:
    version = scenarios[0]["kubeletVersion"]
    with KUBELETS.or_skipped():
        async with started([*map(recordings.node, scenarios)], version=version) as running:
            yield running


async def test_twenty_kubelets_take_little_memory(
    cluster: RealCluster, record_testsuite_property: Callable[[str, object], None]
) -> None:
    used = cluster.memory()
    record_testsuite_property("bytes of twenty kubelets", used)
    print(f"{len(cluster.kubelets)} kubelets and their companions: {used / 2**20:.0f} MiB")  # noqa: T201  a figure
    assert len(cluster.kubelets) == AT_ONCE
    assert used < MOST_BYTES


async def test_kubelets_decide_as_recorded(cluster: RealCluster, scenarios: list[Json]) -> None:
    async with cluster.plane.client("admin") as api:
        lists = await asyncio.gather(
            *(differences(api, cluster.kubelets[one["name"]], one["steps"]) for one in scenarios)
        )
    assert [line for lines in lists for line in lines] == []


async def differences(api: ApiClient, kubelet: RealKubelet, steps: list[Json]) -> list[str]:
    """Where the kubelet did something else, until the first such step: from there on its node is another."""
    for number, step in enumerate(steps):
        if "delete" in step:
            await remove(api, named(kubelet, step["delete"]))
            continue
        wanted, seen = expected(step["expect"]), await outcome(api, kubelet, step["create"])
        if seen != wanted:
            return [f"{kubelet.node.name}, step {number}: {seen}, recorded {wanted}"]
    return []


def expected(recorded: Json) -> Json:
    given = {"cpus": recordings.exclusive(recorded)} if recorded["admitted"] else {}
    return {"reason": recorded["reason"] if not recorded["admitted"] else "", **given}


async def outcome(api: ApiClient, kubelet: RealKubelet, pod: Json) -> Json:
    name = named(kubelet, pod["metadata"]["name"])
    created = await ask(api, "POST", PODS, as_sent(pod, name, kubelet.node.name))
    assert created.code == HTTPStatus.CREATED, created.body
    phase, reason = await settled(api, name)
    given = {} if phase == "Failed" else {"cpus": pinned(kubelet, created.body["metadata"]["uid"])}
    return {"reason": reason, **given}


def as_sent(pod: Json, name: str, node: str) -> Json:
    inits = [
        one if one.get("restartPolicy") == "Always" else {**one, "command": ["exit"]}
        for one in pod["spec"].get("initContainers", ())
    ]
    more = {"nodeName": node, "restartPolicy": "Never", **({"initContainers": inits} if inits else {})}
    annotations = pod["metadata"].get("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {**pod["spec"], **more},
    }


def named(kubelet: RealKubelet, name: str) -> str:
    """Scenarios name their pods alike, and these are in one namespace."""
    return f"{kubelet.node.name}-{name}"


def pinned(kubelet: RealKubelet, uid: str) -> Json:
    if not (state := kubelet.state / "cpu_manager_state").exists():
        return {}
    entries: Json = json.loads(state.read_text(encoding="utf-8")).get("entries", {})
    cpus: Json = entries.get(uid, {})
    return cpus
