"""How much memory values take, as the interpreter counts it."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from enum import StrEnum

import orjson
import pytest

from numalign.kube.decode import placement_records
from numalign.kube.decode.pod_reader import PodReader
from numalign.memory_size import weight
from numalign.model.intent import PLACEMENT

pytestmark = pytest.mark.full

SLACK = 1500
"""Bytes that come and go with any call."""


class Word(StrEnum):
    ONE = "one"


def test_shared_objects_weigh_nothing_and_equal_ones_once() -> None:
    text = "x" * 10_000

    assert weight(None, Word.ONE, Word, pod) == 0
    assert weight([text, text], text) < weight(text) + 200
    assert weight({text: 1}) > 10_000


def containers(count: int, amounts: int, name: str = "example.com/device") -> list[object]:
    bags = ({f"{name}-{at}-{number}": "1" for number in range(amounts)} for at in range(count))
    return [{"name": f"c{at}", "resources": {"limits": bag}} for at, bag in enumerate(bags)]


def pod(*listed: object, policy: str = "restricted") -> bytes:
    metadata = {"annotations": {"numalign.io/policy": policy}}
    return orjson.dumps({"metadata": metadata, "spec": {"containers": [*listed]}})


def record(amounts: int, name: str = "a") -> bytes:
    entry = {"zones": ["node-0"], "amount": {f"{name}{number}": "1" for number in range(amounts)}}
    return orjson.dumps({PLACEMENT: orjson.dumps([entry]).decode()})


def request(text: bytes) -> object:
    return PodReader().request(json.loads(text))


def placement(text: bytes) -> object:
    return placement_records.record_of(json.loads(text))


WRITTEN: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    # situation: (how it is read, what is written)
    "a usual pod": (request, pod({"name": "a", "resources": {"limits": {"cpu": "4", "memory": "8Gi"}}})),
    "many amounts": (request, pod(*containers(20, 200))),
    "long names": (request, pod(*containers(20, 200, f"{'x' * 240}/{'y' * 50}"))),
    "many mistakes": (request, pod(*containers(20, 200), *[1] * 60)),
    "a long word": (request, pod(policy="x" * 200_000)),
    "a record": (placement, record(2)),
    # Shorter names are kept by the reader of JSON, and shared.
    "a record of many amounts": (placement, record(256, "x" * 70)),
}


@pytest.mark.parametrize(("read", "written"), WRITTEN.values(), ids=WRITTEN)
def test_weight_is_near_what_the_interpreter_allocates(
    read: Callable[[bytes], object], written: bytes
) -> None:
    # What is read of any pod is kept once for all, and is no part of what is weighed.
    read(written)
    gc.collect()
    # The second collection then looks at nothing but what was read.
    gc.freeze()
    tracemalloc.start()
    try:
        value = read(written)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken / 2 - SLACK < weight(value) < 2 * taken + SLACK
