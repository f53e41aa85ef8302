"""Pods that come to one node and go again, each predicted before it is there, and looked at afterwards."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.decode.kubelet_reports import PLACEMENTS
from tests.kubelet.real.comparing import Tally
from tests.kubelet.real.conftest import VERSIONS
from tests.kubelet.real.published import predict
from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.kubelets.agents import Agent, agents
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kept import kept
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.waiting import seconds_until
from tools.generate.recordings import arrivals, scenarios
from tools.generate.recordings.recipes import RECIPES, Draw

PODS = "/api/v1/namespaces/default/pods"
WITHIN = 60.0
"""Limit of a wait: after an outage, a kubelet asks the API server again after half a minute."""

EVERY = 0.05
ENDS_AT_ONCE = ["exit"]
"""The command of a container that the fake runtime ends as soon as it started."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and its kubelet's configuration, as tests/kubelet/oracle draws them."""

    kind: str
    seed: int

    @property
    def name(self) -> str:
        """Of its node."""
        return f"{self.kind}-{self.seed}"

    def drawn(self, version: str) -> Json:
        """`machine` and `kubeletConfig`."""
        head, _ = scenarios.start(self.seed, self.kind, version)
        return head

    def steps(self, version: str, *, pods: int) -> arrivals.Steps:
        """So many pods that fit the node as a whole, and pods that leave in between."""
        own = {"steps": (pods, pods), "misfits": 0.0, "deleted": 0.45, "at_once": (1, 1, 2)}
        rng = random.Random(f"{self.name}-{pods}")  # noqa: S311  nothing here is a secret
        draw = Draw(rng, RECIPES[self.kind]["pods"] | own)
        return arrivals.steps(draw, self.drawn(version)["machine"])


# Of the options that are not for everybody yet.
OPTIONS = {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
# To resize a pod in place takes cgroups, and from v1.36 on it begins as soon as a pod states resources.
NO_RESIZES = {"InPlacePodLevelResourcesVerticalScaling": False}
GATES: Mapping[str, Mapping[str, bool]] = {
    version: OPTIONS | (NO_RESIZES if "bubble" in scenarios.kinds(version) else {}) for version in VERSIONS
}


def real_node(machine: Machine, version: str) -> RealNode:
    """A drawn machine as the node of a real kubelet."""
    drawn = machine.drawn(version)
    config = drawn["kubeletConfig"]
    return RealNode(
        name=machine.name,
        machine=drawn["machine"] | {"devices": _healthy(drawn["machine"]["devices"])},
        configuration={**config, "featureGates": {**GATES[version], **config.get("featureGates", {})}},
        labels=drawn["labels"],
    )


def _healthy(devices: Json) -> Json:
    """The same devices, all of them well.

    A kubelet counts ill devices where it says which zones would do at best, and tells nobody where those sit
    that have been ill since before anybody asked.
    """
    return {resource: [{**one, "healthy": True} for one in listed] for resource, listed in devices.items()}


@dataclass(frozen=True, slots=True)
class Stage:
    """A node that runs: its kubelet keeps its checkpoints in `state`."""

    machine: Machine
    version: str
    state: Path
    api: ApiClient

    async def play(self, *, pods: int) -> Tally:
        """All of them, one after another."""
        tally = Tally()
        steps, verdict = self.machine.steps(self.version, pods=pods), None
        while True:
            try:
                step = steps.send(verdict)
            except StopIteration:
                return tally
            verdict = await self._step(step, tally)

    async def _step(self, step: Json, tally: Tally) -> bool | None:
        if "delete" in step:
            await self.delete(self.name(step["delete"]))
            return None
        return await self.create(self.pod(step["create"]), tally)

    async def create(self, pod: Json, tally: Tally) -> bool:
        """Predict what the kubelet does with a pod, and compare; whether it admits it."""
        # A scheduler sees what the API server sets in a pod.
        rehearsed = await ask(self.api, "POST", PODS, pod, dryRun="All")
        if rehearsed.code == HTTPStatus.UNPROCESSABLE_ENTITY:
            # What is drawn for the managers alone is not always a pod that an API server takes.
            tally.invalid += 1
            return False
        predicted = await predict(self.api, rehearsed.body)
        made = await ask(self.api, "POST", PODS, pod)
        assert made.code == HTTPStatus.CREATED, made.body
        uid = made.body["metadata"]["uid"]
        status = await self.decided(pod["metadata"]["name"], uid)
        refused = status.get("phase") == "Failed"
        seen = None if refused else kept(self.state, uid, self._devices())
        tally.add(pod, predicted, status, seen)
        if refused:
            await self.delete(pod["metadata"]["name"])
        return not refused

    async def decided(self, name: str, uid: str) -> Json:
        """The pod's status when the kubelet has refused it, or admitted it and its agent has reported it."""

        async def known() -> bool:
            return (await self._status(name)).get("phase") == "Failed" or uid in await self.reported()

        what = f"{self.machine.name} decided on {name}"
        await seconds_until(known, bool, what=what, within=WITHIN, every=EVERY)
        return await self._status(name)

    async def _status(self, name: str) -> Json:
        status: Json = (await ask(self.api, "GET", f"{PODS}/{name}")).body.get("status", {})
        return status

    async def reported(self) -> Mapping[str, object]:
        """By UID, what the agent reports of pods."""
        topology = (await ask(self.api, "GET", f"{TOPOLOGIES}/{self.machine.name}")).body
        text = topology["metadata"].get("annotations", {}).get(PLACEMENTS, '{"pods": {}}')
        pods: Mapping[str, object] = orjson.loads(text)["pods"]
        return pods

    async def delete(self, name: str) -> None:
        """Returns when the pod is gone."""
        await ask(self.api, "DELETE", f"{PODS}/{name}")

        async def code() -> int:
            return (await ask(self.api, "GET", f"{PODS}/{name}")).code

        gone = f"{name} was gone"
        await seconds_until(
            code, lambda seen: seen == HTTPStatus.NOT_FOUND, what=gone, within=WITHIN, every=EVERY
        )

    def name(self, drawn: str) -> str:
        """Of a drawn pod, at the API server."""
        return f"{self.machine.name}-{drawn}"

    def pod(self, drawn: Json) -> Json:
        """A drawn pod as it is made at the API server; what it asks for is as drawn."""
        spec = drawn["spec"] | {
            "nodeName": self.machine.name,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
        }
        if before := spec.get("initContainers"):
            ending = [one if "restartPolicy" in one else one | {"command": ENDS_AT_ONCE} for one in before]
            spec |= {"initContainers": ending}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name(drawn["metadata"]["name"]), "namespace": "default"},
            "spec": spec,
        }

    def _devices(self) -> Json:
        devices: Json = self.machine.drawn(self.version)["machine"]["devices"]
        return devices


@dataclass(slots=True)
class Course:
    """What happens on a stage, a few pods at a time. Without an answer a pod counts as admitted."""

    stage: Stage
    steps: arrivals.Steps
    _admitted: bool | None = None

    async def come(self, pods: int) -> Tally:
        """So many pods come, each predicted and compared, and others go in between."""
        tally = Tally()
        while tally.decisions < pods:
            step = self._next()
            if "create" in step:
                self._admitted = await self.stage.create(self.stage.pod(step["create"]), tally)
            else:
                await self.stage.delete(self.stage.name(step["delete"]))
        return tally

    async def send(self, pods: int) -> None:
        """So many pods are made, and others deleted, without waiting."""
        while pods:
            step = self._next()
            if "create" in step:
                made = await ask(self.stage.api, "POST", PODS, self.stage.pod(step["create"]))
                pods -= made.code == HTTPStatus.CREATED
            else:
                await ask(self.stage.api, "DELETE", f"{PODS}/{self.stage.name(step['delete'])}")

    def _next(self) -> Json:
        admitted, self._admitted = self._admitted, None
        return self.steps.send(admitted)


async def play_all(stages: list[Stage], *, pods: int) -> dict[str, Tally]:
    """Pods on all nodes at once."""
    tallies = await asyncio.gather(*(stage.play(pods=pods) for stage in stages))
    return {stage.machine.name: tally for stage, tally in zip(stages, tallies, strict=True)}


@asynccontextmanager
async def running(
    machines: Sequence[Machine], version: str
) -> AsyncIterator[tuple[RealCluster, ApiClient, Mapping[str, Agent], Mapping[str, Stage]]]:
    """Kubelets of a version with agents beside them: the cluster, its client, agents and stages by node."""
    nodes = [real_node(machine, version) for machine in machines]
    async with started(nodes, version=version) as cluster, cluster.plane.client("admin") as api:
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await Store(api).apply(document)
        async with agents(cluster) as beside:
            yield (
                cluster,
                api,
                beside,
                {
                    each.name: Stage(each, version, cluster.kubelets[each.name].state, api)
                    for each in machines
                },
            )
