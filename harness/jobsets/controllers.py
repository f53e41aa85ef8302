"""The real JobSet controller next to a control plane, with all its webhooks.

    async with jobsets(children, plane):  # the plane knows USERS
        ...  # create JobSets; `harness.controlplane.controllers` creates the pods of their Jobs

A JobSet that loses one Job restarts all of them, so it is the most expensive workload to disturb.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import shipped
from harness.api_objects import Store
from harness.api_requests import Json
from harness.controlplane.planes import Plane
from harness.jobsets.build import PROGRAM, find
from harness.operators import called, until_served
from harness.processes import Child, Children, answers, free_port, until

USER = "system:serviceaccount:jobset-system:jobset-controller-manager"
USERS = {USER: ""}
"""Users that the plane must know, besides an `admin`."""

# Its kustomization adds this selector to the two webhooks for pods.
OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


@dataclass(frozen=True, slots=True)
class JobSets:
    """A running controller. `log` is its output."""

    child: Child
    log: Path


@asynccontextmanager
async def jobsets(children: Children, plane: Plane) -> AsyncIterator[JobSets]:
    """Run the JobSet controller during the block; the plane must know `USERS`.

    Raise `UnavailableError` and `BrokenError` like `harness.jobsets.build`.
    """
    [programs] = await find()
    folder = plane.folder / PROGRAM
    folder.mkdir(exist_ok=True)
    port, probes = free_port(), free_port()
    async with plane.client("admin") as api:
        store = Store(api)
        documents = installed(programs, port, plane.ca)
        for document in documents:
            await store.apply(document)
        await until_served(store, plane, documents)
        child = await children.start(
            str(programs / PROGRAM),
            f"--config={_configuration(folder, port, probes, plane.ca.parent)}",
            f"--kubeconfig={plane.kubeconfig(USER, folder)}",
            name=PROGRAM,
        )
        try:
            ready = partial(answers, f"http://127.0.0.1:{probes}/readyz")
            await until(ready, what=f"{PROGRAM} was ready", child=child)
            yield JobSets(child, children.logs / PROGRAM)
        finally:
            await child.end()


def installed(programs: Path, port: int, ca: Path) -> list[Json]:
    """Return the objects that a cluster needs; its webhooks are called at a port of this machine."""
    [role] = shipped.documents(programs / "role.yaml")
    hooks = [called(each, port, ca) for each in shipped.documents(programs / "webhooks.yaml")]
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
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    }


def _configuration(folder: Path, port: int, probes: int, certificates: Path) -> Path:
    """Write its configuration, and return the path; `certificates` has the files of a TLS secret."""
    file = folder / "config.yaml"
    told = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
    }
    file.write_text(json.dumps(told))
    return file
