"""The real Kueue next to a control plane, with the definitions, roles and webhooks of its chart.

    async with kueue(children, plane, helm):  # the plane knows USERS
        ...  # create ClusterQueues and LocalQueues, and Jobs with the label of a queue

Kueue holds pods and suspends jobs until they have quota, and changes their templates when it admits them: so
it writes the objects that numalign's webhooks review.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import KUEUE
from tools.clusters.helm import charts
from tools.clusters.installing import Account, Running, install, running
from tools.clusters.processes import Children

ACCOUNT = Account("kueue-system", "kueue-controller-manager")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""

# Without cert-manager's Secret, it reads the certificate for metrics from a fixed path.
_MOUNTING = """
mount -t tmpfs -o size=1m none /etc && mkdir -p /etc/kueue/metrics || exit
ln -s "$1" /etc/kueue/metrics/certs || exit
shift
exec "$@"
"""


@asynccontextmanager
async def kueue(children: Children, plane: Plane, helm: Path) -> AsyncIterator[Running]:
    """Run Kueue during the block; the plane must know `USERS`, and mount namespaces be allowed.

    Raise `UnavailableError` and `BrokenError` like `tools.clusters.operators.Operator.find`.
    """
    [programs] = await KUEUE.find()
    documents = charts.rendered(helm, programs / "charts" / "kueue", namespace=ACCOUNT.namespace)
    place = await install(plane, programs / "kueue", ACCOUNT, documents)
    [configured] = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    settings = {
        **yaml.safe_load(configured["controller_manager_config.yaml"]),
        "internalCertManagement": {"enable": False},
        "webhook": {"certDir": str(place.certificates)},
    }
    async with running(
        children,
        place,
        *("unshare", "--mount", "--propagation=private", "sh", "-c", _MOUNTING, "mounting"),
        *(str(place.certificates), str(place.program)),
        f"--config={place.manager(settings)}",
        f"--kubeconfig={place.kubeconfig}",
        "--feature-gates=VisibilityOnDemand=false",
    ) as controller:
        yield controller
