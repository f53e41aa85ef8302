"""The real Kueue next to a control plane, with the definitions, roles and webhooks of its chart.

    async with kueue(children, plane, helm):  # the plane knows USERS
        ...  # create ClusterQueues and LocalQueues, and Jobs with the label of a queue

Kueue holds pods and suspends jobs until they have quota, and changes their templates when it admits them: so
it writes the objects that numalign's webhooks review.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from harness.api_objects import Store, namespace
from harness.api_requests import Json
from harness.controlplane.planes import Plane
from harness.helm import charts
from harness.kueue.build import CHART, PROGRAM, find
from harness.operators import called, until_served
from harness.processes import Child, Children, answers, free_port, until

NAMESPACE = "kueue-system"
USER = f"system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
USERS = {USER: f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"}
"""Users that the plane must know, besides an `admin`."""

# The process is the Deployment; the API of pending workloads is not served here, and nothing calls Services.
_NOT_HERE = {"Deployment", "APIService", "Service"}

# Without cert-manager's Secret, it reads the certificate for metrics from a fixed path.
_MOUNTING = """
mount -t tmpfs -o size=1m none /etc && mkdir -p /etc/kueue/metrics || exit
ln -s "$1" /etc/kueue/metrics/certs || exit
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Kueue:
    """A running Kueue. `log` is its output."""

    child: Child
    log: Path


@asynccontextmanager
async def kueue(children: Children, plane: Plane, helm: Path) -> AsyncIterator[Kueue]:
    """Run Kueue during the block; the plane must know `USERS`, and mount namespaces must be allowed.

    Raise `UnavailableError` and `BrokenError` like `harness.kueue.build`.
    """
    [programs] = await find()
    folder = plane.folder / PROGRAM
    folder.mkdir(exist_ok=True)
    port, probes = free_port(), free_port()
    installed = charts.rendered(helm, programs / CHART, namespace=NAMESPACE)
    certificates = plane.ca.parent
    async with plane.client("admin") as api:
        store = Store(api)
        for document in (namespace(NAMESPACE, {}), *installed):
            if document["kind"] not in _NOT_HERE:
                await store.apply(called(document, port, plane.ca))
        await until_served(store, plane, installed)
        child = await children.start(
            *("unshare", "--mount", "--propagation=private", "sh", "-c", _MOUNTING, "mounting"),
            *(str(certificates), str(programs / PROGRAM)),
            f"--config={_configuration(installed, folder, port, probes, certificates)}",
            f"--kubeconfig={plane.kubeconfig(USER, folder)}",
            "--feature-gates=VisibilityOnDemand=false",
            name=PROGRAM,
        )
        try:
            ready = partial(answers, f"http://127.0.0.1:{probes}/readyz")
            await until(ready, what=f"{PROGRAM} was ready", child=child)
            yield Kueue(child, children.logs / PROGRAM)
        finally:
            await child.end()


def _configuration(installed: list[Json], folder: Path, port: int, probes: int, certificates: Path) -> Path:
    """Write the chart's configuration with addresses of this machine, and return the path."""
    [shipped] = [each["data"] for each in installed if each["kind"] == "ConfigMap"]
    told = {
        **yaml.safe_load(shipped["controller_manager_config.yaml"]),
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(told))
    return file
