"""The real Karpenter next to a control plane, with the definitions and roles of its chart.

    async with karpenter(children, plane, helm, instances):  # the plane knows USERS
        ...  # create a NodePool: Karpenter creates nodes for pods that are pending

Its kwok provider creates Node objects of the given types of instances. No kubelet runs behind them: whoever
uses them makes them ready, and runs their pods.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import shipped
from harness.api_objects import Store, namespace
from harness.api_requests import Json
from harness.controlplane.planes import Plane
from harness.helm import charts
from harness.karpenter.build import CHART, DEFINITIONS, PROGRAM, find
from harness.operators import until_served
from harness.processes import Child, Children, answers, free_port, until

NAMESPACE = "karpenter"
USER = f"system:serviceaccount:{NAMESPACE}:karpenter"
USERS = {USER: f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"}
"""Users that the plane must know, besides an `admin`."""

NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "invented"}
"""What a NodePool refers to."""

# The process is the Deployment, and nothing calls Services or counts its pods.
_NOT_HERE = {"Deployment", "Service", "PodDisruptionBudget"}


@dataclass(frozen=True, slots=True)
class Karpenter:
    """A running Karpenter. `log` is its output."""

    child: Child
    log: Path


@asynccontextmanager
async def karpenter(
    children: Children, plane: Plane, helm: Path, instances: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[Karpenter]:
    """Run Karpenter during the block; the plane must know `USERS`.

    `instances` are the resources of each type of instance, by name; the first is the cheapest. Raise
    `UnavailableError` and `BrokenError` like `harness.karpenter.build`.
    """
    [programs] = await find()
    folder = plane.folder / PROGRAM
    folder.mkdir(exist_ok=True)
    types = folder / "instances.json"
    types.write_text(json.dumps(_described(instances)))
    probes = free_port()
    definitions = [
        each for file in sorted((programs / DEFINITIONS).iterdir()) for each in shipped.documents(file)
    ]
    installed = charts.rendered(helm, programs / CHART, namespace=NAMESPACE)
    async with plane.client("admin") as api:
        store = Store(api)
        for document in (namespace(NAMESPACE, {}), *definitions, *installed):
            if document["kind"] not in _NOT_HERE:
                await store.apply(document)
        await until_served(store, plane, (*definitions, *installed))
        child = await children.start(
            *("env", f"KUBECONFIG={plane.kubeconfig(USER, folder)}", f"SYSTEM_NAMESPACE={NAMESPACE}"),
            str(programs / PROGRAM),
            f"--instance-types-file-path={types}",
            f"--health-probe-port={probes}",
            f"--metrics-port={free_port()}",
            "--disable-leader-election=true",
            name=PROGRAM,
        )
        try:
            ready = partial(answers, f"http://127.0.0.1:{probes}/readyz")
            await until(ready, what=f"{PROGRAM} was ready", child=child)
            await store.apply(_node_class())
            yield Karpenter(child, children.logs / PROGRAM)
        finally:
            await child.end()


_OFFERED: Sequence[Json] = [
    {"key": key, "operator": "In", "values": [value]}
    for key, value in (("karpenter.sh/capacity-type", "on-demand"), ("topology.kubernetes.io/zone", "z1"))
]


def _described(instances: Mapping[str, Mapping[str, str]]) -> Sequence[Json]:
    return [
        {
            "name": name,
            "offerings": [{"Price": float(price), "Available": True, "Requirements": [*_OFFERED]}],
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"ephemeral-storage": "100Gi", "pods": "110", **resources},
        }
        for price, (name, resources) in enumerate(instances.items(), start=1)
    ]


def _node_class() -> Json:
    version, kind = f"{NODE_CLASS['group']}/v1alpha1", NODE_CLASS["kind"]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NODE_CLASS["name"]}}
