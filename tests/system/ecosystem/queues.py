"""Queues of Kueue, and what is asked of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import Numalign
from tools.clusters.api_requests import Json
from tools.clusters.processes import Child

VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE = "queue"
"""The name of the only queue of every namespace."""
OF_QUEUE = {"kueue.x-k8s.io/queue-name": QUEUE}
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Queues:
    ours: Numalign
    kueue: Child

    @asynccontextmanager
    async def home(
        self,
        name: str,
        labels: Mapping[str, str],
        *,
        on: Mapping[str, str],
        cpus: int,
        topology: bool = False,
    ) -> AsyncIterator[str]:
        """A namespace whose queue has quota for so many CPUs of nodes with these labels.

        With `topology`, Kueue chooses the node of each pod (Topology Aware Scheduling).
        """
        store = self.ours.stage.store
        flavor: Json = {"nodeLabels": dict(on)}
        if topology:
            await store.apply(made("Topology", "hosts", {"levels": [{"nodeLabel": HOST}]}))
            flavor["topologyName"] = "hosts"
        await store.apply(made("ResourceFlavor", name, flavor))
        amounts = [{"name": "cpu", "nominalQuota": str(cpus)}, {"name": "memory", "nominalQuota": "1Ti"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": amounts}]}
        preemption = {"withinClusterQueue": "LowerPriority"}
        quota = {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": [group]}
        await store.apply(made("ClusterQueue", name, quota))
        async with self.ours.home(name, labels) as home:
            await store.apply(made("LocalQueue", QUEUE, {"clusterQueue": name}, namespace=home))
            yield home

    async def workload(self, home: str, of: str) -> Json:
        """The Workload that Kueue made for a Job or pod; empty if there is none."""
        for each in await self.ours.stage.store.list(VERSION, "Workload"):
            owners = each["metadata"].get("ownerReferences", ())
            if each["metadata"]["namespace"] == home and of in {owner["name"] for owner in owners}:
                return each
        return {}

    async def conditions(self, home: str, of: str) -> dict[str, str]:
        """The conditions of such a Workload; empty if there is none."""
        found = await self.workload(home, of)
        return {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}

    async def until(self, home: str, of: str, condition: str, *, within: float = 30) -> None:
        await eventually(
            partial(self.conditions, home, of),
            lambda seen: seen.get(condition) == "True",
            f"{of} was {condition}",
            within=within,
        )

    def denials(self, home: str) -> list[str]:
        """What Kueue's log says of writes in a namespace that numalign denied."""
        lines = self.kueue.log.read_text(errors="replace").splitlines()
        return [line for line in lines if f'"namespace":"{home}"' in line and "denied the request" in line]


def made(kind: str, name: str, spec: Json, *, namespace: str = "") -> Json:
    within = {"namespace": namespace} if namespace else {}
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name, **within}, "spec": spec}


def queued(wish: Json, **labels: str) -> Json:
    """A workload of the queue; a Job is suspended, as Kueue wants it."""
    metadata = wish["metadata"]
    suspended = {"spec": {**wish["spec"], "suspend": True}} if wish["kind"] == "Job" else {}
    return {
        **wish,
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **OF_QUEUE, **labels}},
        **suspended,
    }


def job(home: str, name: str, count: int, *, cpus: int, annotations: Mapping[str, str] | None = None) -> Json:
    """A Job of the queue, whose pods run until they are deleted; it gives up after the first failure."""
    wish = workloads.template(name, on={}, cpus=cpus, restart="Never")
    wish["metadata"]["annotations"] |= annotations or {}
    return queued(workloads.job(home, name, count, wish, backoff=0))


def pod(home: str, name: str, *, cpus: int, annotations: Mapping[str, str] | None = None) -> Json:
    return queued(bare(home, name, cpus=cpus, annotations=annotations))


def bare(home: str, name: str, *, cpus: int, annotations: Mapping[str, str] | None = None) -> Json:
    wish = workloads.template(name, on={}, cpus=cpus)
    wish["metadata"] |= {"namespace": home, "name": name}
    wish["metadata"]["annotations"] |= annotations or {}
    return {"apiVersion": "v1", "kind": "Pod", **wish}
