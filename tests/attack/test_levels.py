"""A tenant in a namespace that enforces a level, with one more annotation."""

import orjson
import pytest

from harness.http_calls import Connection
from tests.attack import objects
from tests.attack.arena import Arena
from tests.attack.objects import SINGLE
from tests.notation import GPU, HUGE_2M, table

STRICT = "strict"
AMOUNTS = {"cpu": 32, "memory": 128 * 2**30, GPU: 4}
ASKED = {"cpu": "8", "memory": "16Gi", GPU: "2"}

LISTED = [
    # what it lists                   names            whether it is admitted
    ("memory alone",                  "memory",        False),
    ("a prefix of it",                "mem*",          False),
    ("huge pages that no node has",   HUGE_2M,         False),
    ("what it does not request",      "example.com/a", False),
    ("devices alone",                 GPU,             False),
    ("everything",                    f"cpu,mem*,{GPU}", True),
]  # fmt: skip


@pytest.mark.parametrize(("names", "admitted"), table(LISTED))
async def test_nobody_walks_around_a_level(arena: Arena, names: str, *, admitted: bool) -> None:
    arena.put(
        objects.namespace(STRICT, enforce=SINGLE),
        *objects.node("two", zones=2, amounts=AMOUNTS, free=100),
    )
    webhook = await arena.webhook()
    made = objects.pod("sly", {**ASKED, **({HUGE_2M: "2Mi"} if names == HUGE_2M else {})}, resources=names)
    connection = await Connection.open(webhook.door)
    answer = await connection.call("POST", "/validate", objects.review(made, namespace=STRICT))
    connection.close()

    assert orjson.loads(answer.body)["response"]["allowed"] is admitted
