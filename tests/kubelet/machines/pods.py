"""Sends pods to nodes and looks at them, as a test does again and again."""

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient

from tools.clusters.api_requests import ask
from tools.clusters.waiting import seconds_until

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
WITHIN = 30


def container(name: str, *command: str, **amounts: str) -> Json:
    """One whose limits are its requests, and that ends as `command` says."""
    asked = {key.replace("gpu", "example.com/gpu"): amount for key, amount in amounts.items()}
    told = {"command": [*command]} if command else {}
    return {"name": name, "image": "a", **told, "resources": {"requests": asked, "limits": asked}}


async def send(api: ApiClient, name: str, *containers: Json, node: str, **spec: object) -> None:
    """Create a pod that is bound already."""
    whole = {"nodeName": node, "restartPolicy": "Never", "containers": [*containers], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}
    answer = await ask(api, "POST", PODS, pod)
    assert answer.code == HTTPStatus.CREATED, answer.body


async def status(api: ApiClient, name: str) -> Json:
    found: Json = (await ask(api, "GET", f"{PODS}/{name}")).body.get("status", {})
    return found


async def until_pod(api: ApiClient, name: str, right: Callable[[Json], bool], *, what: str) -> Json:
    """The status of the pod, as soon as it is as it should be."""
    await seconds_until(lambda: status(api, name), right, what=f"{name} {what}", within=WITHIN, every=0.1)
    return await status(api, name)


async def phase(api: ApiClient, name: str, *wanted: str) -> Json:
    """The status of the pod, as soon as it is in one of these phases."""
    return await until_pod(api, name, lambda seen: seen.get("phase") in wanted, what=f"was {wanted}")


async def settled(api: ApiClient, name: str) -> tuple[str, str]:
    """What the kubelet did with the pod: its phase, and the reason if it was refused."""
    found = await phase(api, name, "Running", "Failed", "Succeeded")
    return found["phase"], found.get("reason", "")


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
