"""The controllers that other tests rely on: they make pods of workloads, and a budget keeps what it says."""

from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tools.clusters import fleets
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, pod
from tools.clusters.controlplane import audits, controllers
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.jobsets.controllers import USERS as JOBSET_CONTROLLER
from tools.clusters.jobsets.controllers import jobsets
from tools.clusters.processes import Children
from tools.clusters.waiting import SELDOM, seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

REPLICASETS = "system:serviceaccount:kube-system:replicaset-controller"
PODS = "/api/v1/namespaces/default/pods"
OURS = {"app": "ours"}
TEMPLATE = {"metadata": {"labels": OURS}, "spec": pod("", asks={"cpu": "1", "memory": "1Gi"})["spec"]}


def workload(version: str, kind: str, **spec: object) -> Json:
    """An object with this specification, called as its labels are."""
    metadata = {"namespace": "default", "name": "ours"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


DEPLOYMENT = workload("apps/v1", "Deployment", replicas=2, selector={"matchLabels": OURS}, template=TEMPLATE)
BUDGET = workload("policy/v1", "PodDisruptionBudget", minAvailable=2, selector={"matchLabels": OURS})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[Plane]:
    """A plane of its own with controllers: the workloads of other tests are to stay without pods."""
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("controlled"), pair)
    if not (place.binaries / controllers.PROGRAM).is_file():
        pytest.skip(f"{place.binaries} has no {controllers.PROGRAM}")
    noted = audits.flags(place.folder, users=(controllers.USER, REPLICASETS))
    users = {"admin": "system:masters", **controllers.USERS, **JOBSET_CONTROLLER}
    running = Plane(children, place, users=users, flags=noted)
    await running.start()
    async with running.client("admin") as api:
        # Pods on a node that is none are deleted after a while.
        await Store(api).apply(fleets.node("a", fleets.LARGER))
    async with controllers.controllers(children, running):
        yield running
    await running.kill()


def jobset(**spec: object) -> Json:
    """Two Jobs of two pods each."""
    job = {"parallelism": 2, "completions": 2, "template": TEMPLATE}
    workers = {"name": "workers", "replicas": 2, "template": {"spec": job}}
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[workers], **spec)


async def pods_of(api: ApiClient, selector: str) -> list[Json]:
    """The pods with these labels."""
    found: list[Json] = (await ask(api, "GET", PODS, labelSelector=selector)).body["items"]
    return found


async def take_up(api: ApiClient, name: str) -> None:
    """What scheduler and kubelet would do: the pod has a node, and is ready there."""
    path = f"{PODS}/{name}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    assert (await ask(api, "POST", f"{path}/binding", binding)).code == HTTPStatus.CREATED
    bound = (await ask(api, "GET", path)).body
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await ask(api, "PUT", f"{path}/status", bound | {"status": status})).code == HTTPStatus.OK


async def evict(api: ApiClient, name: str) -> int:
    """The code with which the API server answers."""
    wish = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    return (await ask(api, "POST", f"{PODS}/{name}/eviction", wish)).code


async def test_a_deployment_gets_pods_and_a_budget_keeps_them(plane: Plane) -> None:
    async with plane.client("admin") as api:
        store = Store(api)
        await store.apply(DEPLOYMENT)
        await store.apply(BUDGET)
        look = partial(pods_of, api, "app=ours")
        await seconds_until(look, lambda pods: len(pods) == 2, what="it had pods", within=60, every=SELDOM)
        pods = await look()
        for each in pods:
            await take_up(api, each["metadata"]["name"])

        async def budget() -> Json:
            status: Json = (await store.read(BUDGET)).body.get("status", {})
            return status

        counted = {"currentHealthy": 2, "disruptionsAllowed": 0}
        await seconds_until(
            budget,
            lambda status: counted.items() <= status.items(),
            what="the budget was counted",
            within=60,
            every=SELDOM,
        )
        assert await evict(api, pods[0]["metadata"]["name"]) == HTTPStatus.TOO_MANY_REQUESTS

    made = [use for use in audits.uses(plane.folder, user=REPLICASETS) if use.resource == "pods"]
    assert [(use.verb, use.code) for use in made if use.writes] == [("create", HTTPStatus.CREATED)] * 2


async def test_a_jobset_gets_jobs_and_these_get_pods(children: Children, plane: Plane) -> None:
    async with jobsets(children, plane), plane.client("admin") as api:
        store = Store(api)
        unheard = {"operator": "All", "targetReplicatedJobs": ["nobody"]}
        refused = await store.try_to_apply(jobset(successPolicy=unheard))
        assert "nobody" in refused.body["message"]
        await store.apply(jobset())
        look = partial(pods_of, api, "jobset.sigs.k8s.io/jobset-name=ours")
        await seconds_until(look, lambda pods: len(pods) == 4, what="it had pods", within=60, every=SELDOM)
        names = {each["metadata"]["name"].rpartition("-")[0] for each in await look()}
    # Numbered within their Job, as its webhook has them.
    assert names == {"ours-workers-0-0", "ours-workers-0-1", "ours-workers-1-0", "ours-workers-1-1"}


async def test_missing_program_is_reported(children: Children, tmp_path: Path, pair: authority.Files) -> None:
    bare = Plane(children, Place(tmp_path, tmp_path, pair), users={})
    with pytest.raises(UnavailableError, match="has no kube-controller-manager"):
        async with controllers.controllers(children, bare):
            pytest.fail("it began")
