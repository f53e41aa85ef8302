"""The real Kubeflow Trainer next to a control plane, with the definitions, role and webhooks of its module.

    async with jobsets(children, plane), trainer(children, plane):  # the plane knows the USERS of both
        ...  # create a TrainingRuntime and TrainJobs: the Trainer creates their JobSets

Its runtimes are not created.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import TRAINER
from tools.clusters.installing import Account, Running, install, running
from tools.clusters.processes import Children

ACCOUNT = Account("kubeflow-system", "kubeflow-trainer-controller-manager")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""


@asynccontextmanager
async def trainer(children: Children, plane: Plane) -> AsyncIterator[Running]:
    """Run the Trainer during the block, beside `jobsets`; the plane must know `USERS`.

    Raise `UnavailableError` and `BrokenError` like `tools.clusters.operators.Operator.find`.
    """
    [programs] = await TRAINER.find()
    place = await install(plane, programs / "trainer", ACCOUNT, _documents(programs))
    settings = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "certManagement": {"enable": False},
    }
    # It reads its certificate from a fixed place in the folder for temporary files.
    serving = place.folder / "k8s-webhook-server"
    serving.mkdir(exist_ok=True)
    (serving / "serving-certs").symlink_to(place.certificates)
    async with running(
        children,
        place,
        *("env", f"KUBECONFIG={place.kubeconfig}", f"TMPDIR={place.folder}"),
        str(place.program),
        f"--config={place.manager(settings)}",
    ) as controller:
        yield controller


def _documents(programs: Path) -> list[Json]:
    documents = shipped.documents_below(programs)
    for document in documents:
        if "webhooks" in document:
            # Its kustomization has other names; these are those of JobSet, too.
            document["metadata"]["name"] = f"trainer-{document['metadata']['name']}"
    return documents
