"""
One scenario put to the kubelet's managers and to the rules.

The rules are asked in two ways: told after every pod what really became of it, and left to themselves. Two
things are the kubelet's free choice and no disagreement, and after each the rules are told the truth. Which
of equal devices a container gets is random, and a prediction says where that is so. And several blocks of
memory that are released at once leave in random order, which can matter to how a group of zones is split.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any

from numalign.model.errors import Mistake
from tools.clusters.oracle.managers import Hung, Managers
from tools.generate.recordings import scenarios
from tools.generate.recordings.arrivals import Steps
from tools.generate.recordings.ours import Ours, Predicted, holdings, refusals

Json = dict[str, Any]
Both = tuple[Any, Any]
"""What the rules say, and what the kubelet says."""

LEAST_ALIKE, MOST_ALIKE = 4, 16
"""From how many recordings of the same on one can tell what is chance, and how many are enough."""

ATTEMPTS = 24
"""How many recordings are made at least before too few of them are alike: a busy machine is no excuse."""

NEVER_CHANCE = ("start", "crashed")
"""Differences in which nothing random has a part."""

DOES_NOT_START = "the kubelet would not start: "

TOPICS: Mapping[str, str] = {
    "None policy": "cpuManagerPolicyOptions",
    "at the same time": "cpuManagerPolicyOptions",
    "align-by-socket": "cpuManagerPolicyOptions.align-by-socket",
    "Align by socket": "cpuManagerPolicyOptions.align-by-socket",
    "greater than zero": "reservedSystemCPUs",
    "system reserved memory": "reservedMemory",
    "reserved memory configuration": "reservedMemory",
    "Node Allocatable": "reservedMemory",
    "max-allowable-numa-nodes": "topologyManagerPolicyOptions.max-allowable-numa-nodes",
    "NUMA Nodes": "topologyManagerPolicyOptions.max-allowable-numa-nodes",
    "NUMA distances": "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
}
"""The field that a kubelet refuses to start over, by words of its message; the first that is in it counts."""

MODES = ("observed", "alone")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the rules and the kubelet part: at which step, in what, and what each says."""

    mode: str
    step: int
    what: str
    ours: object
    theirs: object


def record(managers: Managers, scenario: Json) -> Json:
    """The scenario with what the kubelet did.

    It ends before a step that the kubelet does not survive (`ended` says how), and has no steps if it refuses
    to start (`refused` says why).
    """
    head = {key: value for key, value in scenario.items() if key not in ("refused", "ended", "steps")}
    return _played(managers, head, _listed(scenario["steps"]))


def drawn(managers: Managers, seed: int, kind: str, version: str) -> Json:
    return _played(managers, *scenarios.start(seed, kind, version))


def differences(recorded: Json, tally: Counter[str]) -> Iterator[Difference]:
    """The first difference of each mode; `tally` counts decisions, and where chance excused one."""
    ours, theirs = refusals(recorded), recorded.get("refused")
    if ours or theirs is not None:
        tally["refused"] += 1
        if theirs is None or not _same_refusal(ours, theirs):
            said = "\n".join(map(str, ours)) or "starts"
            yield Difference("start", 0, "start", said, "starts" if theirs is None else theirs)
        return
    for mode in MODES:
        yield from _first(recorded, mode, tally)


def _same_refusal(ours: Sequence[Mistake], theirs: str) -> bool:
    """Whether all of ours are reasons not to start, and one is at the field that the kubelet names.

    The kubelet stops at its first reason. One of which TOPICS does not know is not agreed with.
    """
    field = next((field for words, field in TOPICS.items() if words in theirs), None)
    reasons = all(one.message.startswith(DOES_NOT_START) for one in ours)
    return field is not None and reasons and any(one.where.endswith(f".{field}") for one in ours)


def random_here(managers: Managers, recorded: Json, difference: Difference, *, seconds: float = 6) -> bool:
    """Whether the kubelet itself, asked the same again, sometimes does something else at this step.

    Only recordings that are alike up to the step are compared. Where chance before it lets hardly any be
    alike, chance cannot be told from a mistake, and it is taken to be at work. The time only ends the look
    for more once there were ATTEMPTS.
    """
    if difference.what in NEVER_CHANCE:
        return False
    steps, alike, end = recorded["steps"][: difference.step + 1], 0, monotonic() + seconds
    for attempt in count(1):
        again = record(managers, recorded | {"steps": steps})["steps"]
        if again[:-1] == steps[:-1]:
            if again != steps:
                return True
            alike += 1
        if alike == MOST_ALIKE or (attempt >= ATTEMPTS and monotonic() > end):
            break
    return alike < LEAST_ALIKE


def _listed(steps: list[Json]) -> Steps:
    for step in steps:
        _unheeded = yield step


def _played(managers: Managers, head: Json, steps: Steps) -> Json:
    refused = managers.node({key: head[key] for key in ("name", "machine", "kubeletConfig")})
    if refused is not None:
        return head | {"steps": [], "refused": refused}
    told: list[Json] = []
    step = _next(steps, None)
    while step:
        answer = _answer(managers, step)
        if "panicked" in answer:
            return head | {"steps": told, "ended": answer["panicked"]}
        told.append(step | {"expect": answer} if answer else step)
        step = _next(steps, answer.get("admitted"))
    return head | {"steps": told}


def _next(steps: Steps, verdict: bool | None) -> Json | None:  # noqa: FBT001 - it is what is sent
    try:
        return steps.send(verdict)
    except StopIteration:
        return None


def _answer(managers: Managers, step: Json) -> Json:
    """What the kubelet says to a step; nothing to a deletion."""
    if "delete" in step:
        managers.delete(step["delete"])
        return {}
    try:
        return managers.create(step["create"])
    except Hung as hung:
        return {"panicked": str(hung)}


def _first(recorded: Json, mode: str, tally: Counter[str]) -> Iterator[Difference]:
    ours, releases = Ours(recorded), _Releases(recorded)
    for at, step in enumerate(recorded["steps"]):
        if "delete" in step:
            ours.delete(step["delete"])
            releases.leave(step["delete"])
            continue
        truth = step["expect"]
        try:
            answer = ours.create(step["create"])
        except Exception as error:  # noqa: BLE001 - rules that fall over disagree too, whatever they fell over
            yield Difference(mode, at, "crashed", repr(error), truth.get("reason", "admitted"))
            return
        wrong = dict(_compared(answer, truth))
        excuse = _excuse(wrong, answer, loose=releases.settle(step))
        tally.update({"decisions": 1, "admitted": truth["admitted"], excuse or "agreed": 1})
        if wrong and not excuse:
            what = next(iter(wrong))
            yield Difference(mode, at, what, *wrong[what])
            return
        if mode == "observed" or excuse:
            ours.observed(step["create"]["metadata"]["name"], truth)


def _excuse(wrong: Mapping[str, Both], answer: Predicted, *, loose: bool) -> str:
    """What chance explains all that is wrong; empty, if none does."""
    if wrong and answer.chosen and wrong.keys() <= {"amounts", "free"}:
        return "chosen"
    if not loose or wrong.keys() != {"free"}:
        return ""
    ours, theirs = map(_without_memory, wrong["free"])
    return "reordered" if ours == theirs else ""


def _without_memory(amounts: Json) -> Json:
    memory = ("memory", "hugepages-")
    return {
        zones: {name: n for name, n in bag.items() if not name.startswith(memory)}
        for zones, bag in amounts.items()
    }


def _compared(answer: Predicted, truth: Json) -> Iterator[tuple[str, Both]]:
    """What is not alike, by name, the most important first."""
    verdicts = (answer.reason or "admitted", "admitted" if truth["admitted"] else truth.get("reason"))
    if verdicts[0] != verdicts[1]:
        yield "reason" if "admitted" not in verdicts else "admitted", verdicts
    elif answer.admitted:
        for what in ("affinity", "preferred", "cpus", "amounts"):
            both = (_column(answer.containers, what), _column(holdings(truth), what))
            if both[0] != both[1]:
                yield what, both
        left = (_without_zeros(answer.free), _without_zeros(truth["free"]))
        if left[0] != left[1]:
            yield "free", left


def _column(containers: Mapping[str, Json], what: str) -> Json:
    return {
        name: _without_zeros(given.get(what, {})) if what == "amounts" else given.get(what) or None
        for name, given in sorted(containers.items())
    }


def _without_zeros(amounts: Mapping[str, Mapping[str, int]]) -> Json:
    bags = {zones: {name: n for name, n in bag.items() if n} for zones, bag in sorted(amounts.items())}
    return {zones: bag for zones, bag in bags.items() if bag}


class _Releases:
    """Whether several blocks of memory were released at once since the node's state was last seen."""

    def __init__(self, recorded: Json) -> None:
        self._tracked = recorded["kubeletConfig"].get("memoryManagerPolicy") == "Static"
        self._holders: dict[str, int] = {}
        self._leaving = 0
        self._loose = False

    def leave(self, name: str) -> None:
        self._leaving += self._holders.pop(name, 0)

    def settle(self, step: Json) -> bool:
        """A pod was decided on; says whether chance had a hand in the node that it found."""
        self._loose |= self._tracked and self._leaving > 1
        loose, spec = self._loose, step["create"]["spec"]
        holders = len(spec.get("initContainers", [])) + len(spec["containers"])
        if step["expect"]["admitted"]:
            self._holders[step["create"]["metadata"]["name"]] = holders
            self._leaving, self._loose = 0, False
        else:
            self._leaving = holders
        return loose
