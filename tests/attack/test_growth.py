"""Pods for nodes that a pool would add: whom the webhook denies as if no other nodes could ever come."""

import orjson

from harness.http_calls import Connection
from harness.programs import Running
from tests.attack import objects
from tests.attack.arena import Arena
from tests.attack.objects import Json
from tests.notation import GPU

AMOUNTS = {"cpu": 32, "memory": 128 * 2**30}
ASKED = {"cpu": "8", "memory": "16Gi", GPU: "4"}

POOL = {"pool": "cpu"}
VARIED = [
    {"topology.kubernetes.io/zone": "c"},
    {"karpenter.sh/capacity-type": "spot"},
    {"node.kubernetes.io/instance-type": "large"},
    {"example.com/rack": "r9"},
    {"nvidia.com/gpu.present": "true"},
]
"""What labels of nodes say that a pool, whose nodes say otherwise or nothing yet, may add."""


def labelled(name: str, gpus: int, labels: Json) -> list[Json]:
    """A node with so many GPUs in each zone."""
    made = objects.node(name, zones=2, amounts=AMOUNTS | ({GPU: gpus} if gpus else {}), free=100)
    made[0]["metadata"]["labels"] = labels
    return made


async def admitted(webhook: Running, *selectors: Json) -> list[bool]:
    """Whether the webhook admits pods that need 4 GPUs in one zone and select their nodes."""
    connection = await Connection.open(webhook.door)
    pods = [objects.pod("grower", ASKED) for _ in selectors]
    for pod, selector in zip(pods, selectors, strict=True):
        pod["spec"]["nodeSelector"] = selector
    answers = [await connection.call("POST", "/validate", objects.review(pod)) for pod in pods]
    connection.close()
    return [orjson.loads(answer.body)["response"]["allowed"] for answer in answers]


async def test_a_pod_for_nodes_that_a_pool_may_add_is_not_denied(arena: Arena) -> None:
    elsewhere = {key: "other" for selector in VARIED[:-1] for key in selector}
    there = {key: value for selector in VARIED for key, value in selector.items()}
    arena.put(*labelled("gpu-1", 4, {"pool": "gpu", **elsewhere}), *labelled("cpu-1", 0, {**POOL, **there}))
    webhook = await arena.webhook()

    assert await admitted(webhook, *VARIED, POOL) == [True] * len(VARIED) + [False]
