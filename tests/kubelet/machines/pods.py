"""Sends pods to nodes of real kubelets, looks at them, and runs an agent beside a kubelet once."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from tools.clusters.api_requests import ask
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.processes import program, run
from tools.clusters.waiting import seconds_until

Json = dict[str, Any]

# The first test may have to build the programs.
MARKS = [pytest.mark.kubelets, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

PODS = "/api/v1/namespaces/default/pods"
WITHIN = 30


def container(name: str, *command: str, **amounts: str) -> Json:
    """One whose limits are its requests, and that ends as `command` says."""
    bag = {key.replace("gpu", "example.com/gpu"): amount for key, amount in amounts.items()}
    more = {"command": [*command]} if command else {}
    return {"name": name, "image": "a", **more, "resources": {"requests": bag, "limits": bag}}


async def send(api: ApiClient, name: str, *containers: Json, node: str, **spec: object) -> None:
    bound = {"nodeName": node, "restartPolicy": "Never", "containers": [*containers], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": bound}
    answer = await ask(api, "POST", PODS, pod)
    assert answer.code == HTTPStatus.CREATED, answer.body


async def status(api: ApiClient, name: str) -> Json:
    state: Json = (await ask(api, "GET", f"{PODS}/{name}")).body.get("status", {})
    return state


async def phase(api: ApiClient, name: str, *wanted: str) -> Json:
    await seconds_until(
        lambda: status(api, name),
        lambda seen: seen.get("phase") in wanted,
        what=f"{name} was {wanted}",
        within=WITHIN,
        every=0.1,
    )
    return await status(api, name)


async def settled(api: ApiClient, name: str) -> tuple[str, str]:
    state = await phase(api, name, "Running", "Failed", "Succeeded")
    return state["phase"], state.get("reason", "")


async def remove(api: ApiClient, *names: str) -> None:
    """Delete pods, and return when their kubelet has let them go."""
    for name in names:
        await ask(api, "DELETE", f"{PODS}/{name}", gracePeriodSeconds="1")
    for name in names:
        await seconds_until(
            partial(ask, api, "GET", f"{PODS}/{name}"),
            lambda answer: answer.code == HTTPStatus.NOT_FOUND,
            what=f"{name} was gone",
            within=WITHIN,
            every=0.1,
        )


def devices(zones: Mapping[int, int], *ill: str) -> Json:
    """So many GPUs in each zone, those that are named `ill` excepted."""
    ids = [(f"gpu-{zone}-{number}", zone) for zone, count in zones.items() for number in range(count)]
    return {"example.com/gpu": [{"id": one, "zones": [zone], "healthy": one not in ill} for one, zone in ids]}


def machine(**more: object) -> Json:
    """Two zones of four cores on sockets of their own; CPU 0 is reserved for the system."""
    zones = [
        {"id": zone, "socket": zone, "cores": [[4 * zone + at] for at in range(4)], "memory": 8 << 30}
        for zone in range(2)
    ]
    return {"zones": zones, "reservedSystemCPUs": "0", **more}


async def look_once(kubelet: RealKubelet, node: str, kubeconfig: object) -> tuple[int, str]:
    """Let an agent look at a kubelet and publish: its exit code, and its output."""
    return await run(
        program("numalign-agent"),
        *("--once", f"--node-name={node}", "--bind=127.0.0.1", "--metrics-port=0"),
        *(f"--node-address={kubelet.address}", f"--kubelet-port={kubelet.port}"),
        *(f"--podresources-socket={kubelet.podresources}", f"--sysfs={kubelet.sysfs}"),
        *(f"--kubelet-state={kubelet.state}", f"--kubeconfig={kubeconfig}"),
    )
