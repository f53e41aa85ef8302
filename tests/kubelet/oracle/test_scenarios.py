"""What the search draws, compares and makes smaller, looked at without a kubelet."""

import json
from collections import Counter
from typing import Any

import pytest

from tools.generate.recordings import scenarios
from tools.generate.recordings.compare import Difference, Ours, differences, refusals
from tools.generate.recordings.shrink import shrink

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
            ours.tell(step)
            recording.append(step)
            continue
        recording.append(step | {"expect": ours.create(step["create"])})
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


@pytest.mark.parametrize(("kind", "seed"), [("caches", 3), ("multidev", 4), ("trays", 1)])
def test_small_scenario_has_only_what_matters(kind: str, seed: int) -> None:
    def holds(scenario: Json) -> bool:
        """A container has two CPUs of its own."""
        if refusals(scenario):
            return False
        expects = [step.get("expect", step) for step in predicted(scenario)["steps"]]
        given = [one for expect in expects for one in expect.get("containers", {}).values()]
        held = [sum(bag.get("cpu", 0) for bag in one["amounts"].values()) for one in given]
        return max(held, default=0) >= 2000

    small = shrink(drawn(seed, kind), holds)
    [step] = small["steps"]
    [container], [zone] = step["create"]["spec"]["containers"], small["machine"]["zones"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "64Mi"}
    assert len(zone["cores"]) <= 3
    assert small["machine"]["devices"] == {}
