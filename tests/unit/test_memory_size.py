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


class Word(StrEnum):
    """Something that is there anyway."""

    ONE = "one"


def test_what_is_there_anyway_takes_nothing() -> None:
    assert weight(None, Word.ONE, Word, pod) == 0


def test_what_a_value_holds_twice_is_weighed_once() -> None:
    text = "x" * 10_000

    assert weight([text, text], text) < weight(text) + 200


def test_the_names_of_amounts_are_weighed() -> None:
    assert weight({"x" * 10_000: 1}) > 10_000


SLACK = 1500
"""Bytes that come and go with any call."""


def containers(count: int, amounts: int, name: str = "example.com/device") -> list[object]:
    bags = ({f"{name}-{at}-{each}": "1" for each in range(amounts)} for at in range(count))
    return [{"name": f"c{at}", "resources": {"limits": bag}} for at, bag in enumerate(bags)]


def pod(*made: object, policy: str = "restricted") -> bytes:
    metadata = {"annotations": {"numalign.io/policy": policy}}
    return orjson.dumps({"metadata": metadata, "spec": {"containers": [*made]}})


def record(amounts: int, name: str = "a") -> bytes:
    entry = {"zones": ["node-0"], "amount": {f"{name}{each}": "1" for each in range(amounts)}}
    return orjson.dumps({PLACEMENT: orjson.dumps([entry]).decode()})


def asking(text: bytes) -> object:
    return PodReader().request(json.loads(text))


def held(text: bytes) -> object:
    return placement_records.record_of(json.loads(text))


WRITTEN: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    # situation: (how it is read, what is written)
    "a pod such as people write": (
        asking,
        pod({"name": "a", "resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}),
    ),
    "many containers": (asking, pod(*containers(100, 2))),
    "many amounts": (asking, pod(*containers(20, 200))),
    "short names": (asking, pod(*containers(20, 200, "a"))),
    "long names": (asking, pod(*containers(20, 200, f"{'x' * 240}/{'y' * 50}"))),
    "many mistakes": (asking, pod(*containers(20, 200), *[1] * 60)),
    "a long word": (asking, pod(policy="x" * 200_000)),
    "a record": (held, record(2)),
    # Shorter names are kept by the reader of JSON, and shared.
    "a record of many amounts": (held, record(256, "x" * 70)),
    "a record that is none": (held, record(300)),
}


@pytest.mark.parametrize(("read", "written"), WRITTEN.values(), ids=WRITTEN)
def test_weight_of_a_pod_is_its_size_in_memory(read: Callable[[bytes], object], written: bytes) -> None:
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
