"""The real KubeRay operator next to a control plane, with the definitions and the role of its module.

async with kuberay(children, plane):  # the plane knows USERS
    ...  # create RayClusters: the operator creates their pods

Its webhooks, which are off by default, are off here, too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import shipped
from harness.api_objects import Store, namespace
from harness.api_requests import Json
from harness.controlplane.planes import Plane
from harness.kuberay.build import PROGRAM, find
from harness.operators import until_served
from harness.processes import Child, Children, answers, free_port, until

NAMESPACE = "ray-system"
USER = f"system:serviceaccount:{NAMESPACE}:kuberay-operator"
USERS = {USER: f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"}
"""Users that the plane must know, besides an `admin`."""


@dataclass(frozen=True, slots=True)
class KubeRay:
    """A running operator. `log` is its output."""

    child: Child
    log: Path


@asynccontextmanager
async def kuberay(children: Children, plane: Plane) -> AsyncIterator[KubeRay]:
    """Run the operator during the block; the plane must know `USERS`.

    Raise `UnavailableError` and `BrokenError` like `harness.kuberay.build`.
    """
    [programs] = await find()
    folder = plane.folder / PROGRAM
    folder.mkdir(exist_ok=True)
    probes = free_port()
    documents = installed(programs)
    async with plane.client("admin") as api:
        store = Store(api)
        for document in documents:
            await store.apply(document)
        await until_served(store, plane, documents)
        child = await children.start(
            str(programs / PROGRAM),
            f"--kubeconfig={plane.kubeconfig(USER, folder)}",
            f"--health-probe-bind-address=127.0.0.1:{probes}",
            "--metrics-addr=0",
            "--enable-leader-election=false",
            name=PROGRAM,
        )
        try:
            ready = partial(answers, f"http://127.0.0.1:{probes}/readyz")
            await until(ready, what=f"{PROGRAM} was ready", child=child)
            yield KubeRay(child, children.logs / PROGRAM)
        finally:
            await child.end()


def installed(programs: Path) -> list[Json]:
    """Return the objects that a cluster needs."""
    files = (*sorted((programs / "definitions").iterdir()), programs / "role.yaml")
    [binding] = shipped.documents(programs / "binding.yaml")
    # Its kustomization adds the namespace.
    subjects = [{**each, "namespace": NAMESPACE} for each in binding["subjects"]]
    documents = [document for file in files for document in shipped.documents(file)]
    return [namespace(NAMESPACE, {}), *documents, {**binding, "subjects": subjects}]
