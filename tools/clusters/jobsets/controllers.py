"""The real JobSet controller next to a control plane, with all its webhooks.

    async with jobsets(children, plane):  # the plane knows USERS
        ...  # create JobSets; `tools.clusters.controlplane.controllers` creates the pods of their Jobs

A JobSet that loses one Job restarts all of them, so it is the most expensive workload to disturb.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import JOBSET
from tools.clusters.installing import Account, Running, install, running
from tools.clusters.processes import Children

ACCOUNT = Account("jobset-system", "jobset-controller-manager")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""

# Its kustomization adds this selector to the two webhooks for pods.
OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


@asynccontextmanager
async def jobsets(children: Children, plane: Plane) -> AsyncIterator[Running]:
    """Run the JobSet controller during the block; the plane must know `USERS`.

    Raise `UnavailableError` and `BrokenError` like `tools.clusters.operators.Operator.find`.
    """
    [programs] = await JOBSET.find()
    place = await install(plane, programs / "jobset", ACCOUNT, _documents(programs))
    settings = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "webhook": {"certDir": str(place.certificates)},
    }
    async with running(
        children,
        place,
        str(place.program),
        f"--config={place.manager(settings)}",
        f"--kubeconfig={place.kubeconfig}",
    ) as controller:
        yield controller


def _documents(programs: Path) -> list[Json]:
    [role] = shipped.documents(programs / "role.yaml")
    hooks = shipped.documents(programs / "webhooks.yaml")
    for entry in (entry for document in hooks for entry in document["webhooks"]):
        if entry["name"].endswith("pod.kb.io"):
            entry["objectSelector"] = OF_JOBSETS
    return [*shipped.documents(programs / "crd.yaml"), *hooks, role, _binding(role["metadata"]["name"])]


def _binding(role: str) -> Json:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "jobset"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": ACCOUNT.user}],
    }
