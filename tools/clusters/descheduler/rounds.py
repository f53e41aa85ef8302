"""The real descheduler against a control plane, with the role of its chart.

    evicted = await deschedule(plane, helm, profile)  # the plane knows USERS

It runs once and ends, as a Job of its chart does.
"""

import json
import re
from pathlib import Path

import pytest

from tools.clusters.api_requests import Json
from tools.clusters.controlplane.planes import Plane
from tools.clusters.ecosystem import DESCHEDULER
from tools.clusters.helm import charts
from tools.clusters.installing import Account, install
from tools.clusters.processes import run

ACCOUNT = Account("descheduler", "descheduler")
USERS = ACCOUNT.users
"""Users that the plane must know, besides an `admin`."""


async def deschedule(plane: Plane, helm: Path, profile: Json) -> list[str]:
    """Run one profile once, and return the evicted pods as "namespace/name"; fail if it fails.

    The plane must know `USERS`. Raise `UnavailableError` and `BrokenError` like
    `tools.clusters.operators.Operator.find`.
    """
    [programs] = await DESCHEDULER.find()
    documents = charts.rendered(helm, programs / "charts" / "descheduler", namespace=ACCOUNT.namespace)
    place = await install(plane, programs / "descheduler", ACCOUNT, documents)
    policy = place.folder / "policy.yaml"
    kind = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    policy.write_text(json.dumps({**kind, "profiles": [profile]}))
    code, said = await run(
        str(place.program),
        f"--policy-config-file={policy}",
        f"--kubeconfig={place.kubeconfig}",
        "--secure-port=0",
        "--v=1",
    )
    if code:
        pytest.fail(f"descheduler ended with {code}: {said}")
    return re.findall(r'"Evicted pod" pod="(\S+)"', said)
