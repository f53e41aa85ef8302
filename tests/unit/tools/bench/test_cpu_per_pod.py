"""What the scorer takes per pod, as it is put down to parts."""

import inspect
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.model.resources import parse_amount
from scorer.extender_protocol import answer_scores
from tools.bench import cpu_per_pod
from tools.bench.cpu_per_pod import Load, Outcome, Used
from tools.bench.sampled_scorer import OTHERS, part_of

LOAD = Load(nodes=10, names=5, pods=4, warm=1, rate=0)


def outcome() -> Outcome:
    """Four pods that took 10 ms together, of which the ledger had a quarter."""
    used = Used(cpu=0.010, looks={"ledger": 2, "cache": 6}, longest=[(0.001, "run"), (0.003, "put")])
    return Outcome(LOAD, used, took=2.0, bound=4, round_trips={"filter": [0.001, 0.002]}, yardstick=1e-6)


def test_parts_come_to_what_a_pod_takes_and_most_comes_first() -> None:
    assert outcome().per_pod() == {"cache": pytest.approx(1.875), "ledger": pytest.approx(0.625)}
    assert outcome().document()["cpu_ms_per_pod"] == pytest.approx(2.5)


def test_it_is_told_in_tables() -> None:
    told = outcome().text().splitlines()
    assert told[0] == "4 pods, 10 nodes, 5 names in a call: 2 pods/s, 0.01 cores"
    assert [line.split() for line in told if line.startswith(("CPU", "cache", "/filter", "put"))] == [
        ["CPU", "ms", "per", "pod", "2.50"],
        ["cache", "1.875"],
        ["/filter", "1.000", "2.000", "2.000"],
        ["put", "3.000"],
    ]


def frame_inside(call: Callable[[], object], module: str) -> FrameType:
    """The first frame of a module while something is called."""
    found: list[FrameType] = []

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        if module in frame.f_code.co_filename:
            found.append(frame)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found[0]


def test_the_innermost_part_counts() -> None:
    frame = frame_inside(lambda: answer_scores(["a"], [1]), "scorer/extender_protocol.py")
    assert part_of(frame) == "reading and writing calls"


def test_whatever_is_no_part_is_the_event_loop() -> None:
    assert part_of(inspect.currentframe()) == OTHERS


def test_pods_are_read_and_ask_for_what_the_load_says() -> None:
    first, second = cpu_per_pod.pods(2)
    requests = [PodReader().request(pod) for pod in (first, second)]
    assert [request.mistakes for request in requests] == [(), ()]
    totals = [request.demand.total["cpu"] for request in requests if request.demand]
    assert totals == [parse_amount("cpu", cpus) for cpus in ("4", "8")]
    assert first["metadata"]["name"] != second["metadata"]["name"]
