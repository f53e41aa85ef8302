"""Pods for nodes that a pool would add: whom the webhook denies as if no other nodes could ever come."""

import time
from itertools import chain

import orjson

from numalign.kube.decode import shapes
from numalign.kube.files import snapshot
from numalign.shapes import ShapeHistory
from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tests.worlds.notation import GPU
from tools.clusters.http_calls import Connection
from tools.clusters.programs import Running

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
    made = objects.node(name, zones=2, amounts=AMOUNTS | ({GPU: gpus} if gpus else {}), free=100)
    made[0]["metadata"]["labels"] = labels
    return made


async def answers(webhook: Running, *selectors: Json) -> list[Json]:
    """What the webhook says to pods that need 4 GPUs in one zone and select their nodes."""
    connection = await Connection.open(webhook.door)
    pods = [objects.pod("grower", ASKED) for _ in selectors]
    for pod, selector in zip(pods, selectors, strict=True):
        pod["spec"]["nodeSelector"] = selector
    calls = [await connection.call("POST", "/validate", objects.review(pod)) for pod in pods]
    connection.close()
    return [orjson.loads(answer.body)["response"] for answer in calls]


async def test_a_pod_for_nodes_that_a_pool_may_add_is_not_denied(arena: Arena) -> None:
    elsewhere = {key: "other" for selector in VARIED[:-1] for key in selector}
    there = {key: value for selector in VARIED for key, value in selector.items()}
    arena.put(*labelled("gpu-1", 4, {"pool": "gpu", **elsewhere}), *labelled("cpu-1", 0, {**POOL, **there}))
    webhook = await arena.webhook()

    found = [answer["allowed"] for answer in await answers(webhook, *VARIED, POOL)]
    assert found == [True] * len(VARIED) + [False]


LONG, SHORT = 3, 40
NAMES = 877
"""A few nodes of so many long names take nearly all that is kept, and others what is left of it."""


def kept() -> Json:
    names = {f"{'x' * 240}.io/{at}": 1 for at in range(NAMES)}
    of_one_zone = [{"cpu": 1 + at, **names} for at in range(LONG)]
    of_one_zone += [{"cpu": 9 + at, GPU: 1} for at in range(SHORT)]
    nodes = [objects.node(f"n{at}", zones=1, amounts=some, free=100) for at, some in enumerate(of_one_zone)]
    history = ShapeHistory(wall=time.time)
    snapshot.of(chain(*nodes, labelled("gpu-1", 4, {"pool": "gpu"})), shape_history=history)
    data = shapes.encode(history.to_remember())
    return {"apiVersion": "v1", "kind": shapes.KIND, "metadata": {"name": shapes.NAME}, "data": data}


async def test_long_node_names_evict_no_remembered_pool(arena: Arena) -> None:
    arena.objects[:] = [*labelled("cpu-1", 0, POOL), kept()]
    webhook = await arena.webhook()

    [answer] = await answers(webhook, {})
    assert answer["allowed"]
    assert "last seen" in answer["warnings"][0]
