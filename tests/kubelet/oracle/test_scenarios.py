"""What the search draws, compares and makes smaller, looked at without a kubelet."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tools.clusters.oracle.managers import Managers
from tools.generate.recordings import scenarios
from tools.generate.recordings.compare import ATTEMPTS, MOST_ALIKE, Difference, differences, random_here
from tools.generate.recordings.ours import Ours, refusals
from tools.generate.recordings.search import Search, searched

Json = dict[str, Any]

VERSION = "v1.36.3"
SEEDS = range(12)
KINDS = scenarios.kinds(VERSION)


def drawn(seed: int, kind: str) -> Json:
    """A scenario as it is if the kubelet admits every pod."""
    head, steps = scenarios.start(seed, kind, VERSION)
    return head | {"steps": list(steps)}


def predicted(scenario: Json) -> Json:
    """The scenario as if the kubelet did what the rules say."""
    ours, recording = Ours(scenario), []
    for step in scenario["steps"]:
        if "delete" in step:
            ours.delete(step["delete"])
            recording.append(step)
            continue
        answer = ours.create(step["create"])
        containers = {name: given for name, given in answer.containers.items() if name}
        shared = {"shared": answer.containers[""]} if "" in answer.containers else {}
        expect = {"admitted": answer.admitted, "containers": containers, "free": answer.free, **shared}
        recording.append(
            step | {"expect": expect if answer.admitted else {"admitted": False, "reason": answer.reason}}
        )
    return scenario | {"steps": recording}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("startup", "odd", "anything")])
def test_drawn_node_starts(kind: str) -> None:
    assert [refusals(drawn(seed, kind)) for seed in SEEDS] == [()] * len(SEEDS)


@pytest.mark.parametrize("kind", ["plain", "groups", "inits", "multidev", "bubble"])
def test_rules_agree_with_their_own_predictions(kind: str) -> None:
    assert list(differences(predicted(drawn(5, kind)), Counter())) == []


def lie(recorded: Json, what: str) -> Json:
    """The recording with something else at the first admission of a container that holds CPUs."""
    recording: Json = json.loads(json.dumps(recorded))
    for expect in (step["expect"] for step in recording["steps"] if "expect" in step):
        given: Json = next(iter(expect.get("containers", {}).values()), {})
        if "cpus" in given:
            owner = given if what in given else expect
            owner[what] = LIES[what]
            return recording
    raise AssertionError


LIES: Json = {
    "admitted": False,
    "affinity": [9],
    "preferred": None,
    "cpus": "77",
    "amounts": {"0": {"cpu": 77000}},
    "free": {"0": {"cpu": 77000}},
}


@pytest.mark.parametrize("what", LIES)
def test_difference_is_found_in_both_modes(what: str) -> None:
    recording = lie(predicted(drawn(2, "trace")), what)
    different = list(differences(recording, Counter()))
    assert [(each.mode, each.what) for each in different] == [("observed", what), ("alone", what)]


def test_refused_start_of_a_valid_node_is_a_difference() -> None:
    recording = drawn(1, "plain") | {"steps": [], "refused": "no"}
    assert list(differences(recording, Counter())) == [Difference("start", 0, "start", "starts", "no")]


UNRESERVED: Json = {"machine": {"reservedSystemCPUs": "", "reservedCPUs": 0}}
MALFORMED: Json = {"machine": {"zones": []}}


@pytest.mark.parametrize(
    ("change", "output", "agreed"),
    [
        pytest.param(UNRESERVED, "requires systemreserved.cpu to be greater than zero", True, id="the field"),
        pytest.param(UNRESERVED, "can not be used at the same time", False, id="another field"),
        pytest.param(UNRESERVED, "it is Monday", False, id="a reason that nobody knows"),
        pytest.param(MALFORMED, "requires systemreserved.cpu to be greater than zero", False, id="malformed"),
    ],
)
def test_two_refusals_agree_only_over_the_same_field(*, change: Json, output: str, agreed: bool) -> None:
    recording = drawn(1, "plain") | {"steps": [], "refused": output}
    recording["machine"] |= change["machine"]
    recording["kubeletConfig"]["cpuManagerPolicy"] = "static"
    assert refusals(recording)
    assert (list(differences(recording, Counter())) == []) == agreed


class Moody(Managers):
    """A kubelet that admits pods by a function of their number."""

    def __init__(self, admits: Callable[[int], bool]) -> None:
        super().__init__(Path("nothing"))
        self._admits, self.nodes, self._pods = admits, 0, 0

    def node(self, spec: Mapping[str, Any]) -> None:
        assert spec
        self.nodes += 1

    def create(self, pod: Mapping[str, Any]) -> Json:
        self._pods += 1
        return {"pod": pod["metadata"]["name"], "admitted": self._admits(self._pods - 1)}


@pytest.mark.parametrize(
    ("what", "admits", "expected", "attempts"),
    [
        pytest.param("cpus", lambda _: True, False, MOST_ALIKE, id="it always does the same"),
        pytest.param("cpus", lambda pod: pod != 7, True, 4, id="it contradicts itself"),
        pytest.param("cpus", lambda pod: pod % 2, True, ATTEMPTS, id="what comes before is never the same"),
        pytest.param("cpus", lambda pod: pod % 4 != 0, False, ATTEMPTS, id="now and then it is"),
        pytest.param("start", lambda _: False, False, 0, id="a start is no chance"),
        pytest.param("crashed", lambda _: False, False, 0, id="rules that fall over are no chance"),
    ],
)
def test_chance_needs_enough_attempts(
    *, what: str, admits: Callable[[int], bool], expected: bool, attempts: int
) -> None:
    """With no time at all: how busy the machine is does not matter."""
    pods = [step["create"] for step in drawn(1, "plain")["steps"] if "create" in step][:2]
    answers = [{"pod": pod["metadata"]["name"], "admitted": True} for pod in pods]
    steps = [{"create": pod, "expect": answer} for pod, answer in zip(pods, answers, strict=True)]
    managers = Moody(admits)
    difference = Difference("observed", 1, what, "ours", "theirs")
    assert random_here(managers, drawn(1, "plain") | {"steps": steps}, difference, seconds=0) is expected
    assert managers.nodes == attempts


def search(folder: Path, *, seconds: float) -> Search:
    """With a program that ends at once."""
    program = folder / "broken"
    program.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    program.chmod(0o755)
    return Search(program, VERSION, ("plain",), 1, monotonic() + seconds)


def test_search_with_a_broken_program_fails_in_a_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert searched(search(tmp_path, seconds=20)) == os.EX_SOFTWARE
    output = capfd.readouterr()
    assert output.err.endswith("exit code 3: out of order\n")
    assert (output.out, output.err.count("\n"), "Traceback" in output.err) == ("", 1, False)


def test_search_without_a_scenario_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert searched(search(tmp_path, seconds=0)) == os.EX_SOFTWARE
    assert "no scenario was compared" in capfd.readouterr().err
