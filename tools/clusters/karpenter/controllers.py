"""The real Karpenter next to a control plane, with the definitions and roles of its chart.

    async with karpenter(children, plane, helm, instances):  # the plane knows USERS
        ...  # create a NodePool: Karpenter creates nodes for pods that are pending

Its kwok provider creates Node objects of the given types of instances. No kubelet runs behind them: whoever
uses them makes them ready, and runs their pods.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import KARPENTER
from tools.clusters.helm import charts
from tools.clusters.installing import Account, Running, install, running
from tools.clusters.processes import Children, free_port

ACCOUNT = Account("karpenter", "karpenter")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""

NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "invented"}
"""What a NodePool refers to."""


@asynccontextmanager
async def karpenter(
    children: Children, plane: Plane, helm: Path, instances: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[Running]:
    """Run Karpenter during the block; the plane must know `USERS`.

    `instances` are the resources of each type of instance, by name; the first is the cheapest. Raise
    `UnavailableError` and `BrokenError` like `tools.clusters.operators.Operator.find`.
    """
    [programs] = await KARPENTER.find()
    documents = [
        *shipped.documents_below(programs / "definitions"),
        *charts.rendered(helm, programs / "charts" / "karpenter", namespace=ACCOUNT.namespace),
        _node_class(),
    ]
    place = await install(plane, programs / "karpenter", ACCOUNT, documents)
    types = place.folder / "instances.json"
    types.write_text(json.dumps(_described(instances)))
    async with running(
        children,
        place,
        *("env", f"KUBECONFIG={place.kubeconfig}", f"SYSTEM_NAMESPACE={ACCOUNT.namespace}"),
        str(place.program),
        f"--instance-types-file-path={types}",
        f"--health-probe-port={place.probes}",
        f"--metrics-port={free_port()}",
        "--disable-leader-election=true",
    ) as controller:
        yield controller


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
