"""The real KubeRay operator next to a control plane, with the definitions and the role of its module.

    async with kuberay(children, plane):  # the plane knows USERS
        ...  # create RayClusters: the operator creates their pods

Its webhooks, which are off by default, are off here, too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tools.clusters import shipped
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import KUBERAY
from tools.clusters.installing import Account, Running, install, running
from tools.clusters.processes import Children

ACCOUNT = Account("ray-system", "kuberay-operator")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""


@asynccontextmanager
async def kuberay(children: Children, plane: Plane) -> AsyncIterator[Running]:
    """Run the operator during the block; the plane must know `USERS`.

    Raise `UnavailableError` and `BrokenError` like `tools.clusters.operators.Operator.find`.
    """
    [programs] = await KUBERAY.find()
    place = await install(plane, programs / "kuberay", ACCOUNT, shipped.documents_below(programs))
    async with running(
        children,
        place,
        str(place.program),
        f"--kubeconfig={place.kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{place.probes}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
    ) as operator:
        yield operator
