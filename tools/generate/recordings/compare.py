"""
One scenario put to the kubelet's managers and to the rules.

The rules are asked in two ways: told after every pod what really became of it, and left to themselves. Two
things are the kubelet's free choice and no disagreement, and after each the rules are told the truth. Which
of equal devices a container gets is random, and a prediction says where that is so. And several blocks of
memory that are released at once leave in random order, which can matter to how a group of zones is split.

What is compared with the kubelet is what people get from `kubectl numa replay`: the lines, their decoders,
and the session behind them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any

import orjson

from kubectl_numa.events import BadLine, read
from kubectl_numa.replaying import Session, follow
from numalign.model.errors import Mistake
from numalign.model.node import Node
from tools.clusters.oracle.managers import Hung, Managers
from tools.generate.recordings import scenarios
from tools.generate.recordings.arrivals import Steps

Json = dict[str, Any]
Both = tuple[Any, Any]
"""What the rules say, and what the kubelet says."""

NODE = ("name", "machine", "kubeletConfig", "kubeletVersion", "labels")
OBSERVED = ("admitted", "containers", "shared", "free")

LEAST_ALIKE, MOST_ALIKE = 4, 16
"""From how many recordings of the same on one can tell what is chance, and how many are enough."""

ATTEMPTS = 24
"""How many recordings are made at least before too few of them are alike: a busy machine is no excuse."""

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


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the rules and the kubelet part: at which step, in what, and what each says."""

    mode: str
    step: int
    what: str
    ours: object
    theirs: object


class Ours:
    """The rules in the place of one node's kubelet, from its start on."""

    _session: Session | None = None

    def __init__(self, scenario: Json) -> None:
        self.tell({"node": {name: scenario[name] for name in NODE if name in scenario}})

    def tell(self, line: Json) -> None:
        self._session, _ = follow(self._session, read(orjson.dumps(line)))

    def create(self, pod: Json) -> Json:
        """What becomes of a pod, in the shape of the recordings; the prediction is charged."""
        self._session, answer = follow(self._session, read(orjson.dumps({"create": pod})))
        assert answer
        left = {} if answer.reason else {"free": _free(self._session.node)}
        return dict(orjson.loads(orjson.dumps(answer.to_json() | left)))


def _free(node: Node) -> Json:
    """What is left by set of zones: devices between zones stand apart."""
    left = dict(node.stock.devices) if node.stock else {}
    found = {
        str(zone.id): {name: amount for name, amount in zone.free.items() if name not in left}
        for zone in node.every_zone
    }
    for name, places in node.machine.devices if node.machine else ():
        for place, amount in zip(places, left[name], strict=True):
            if place.known:
                found.setdefault(",".join(map(str, place.known)), {})[name] = amount
    return found


def refusals(scenario: Json) -> tuple[Mistake, ...]:
    """Why the rules take this node for none: its kubelet does not start, or the description is wrong."""
    try:
        Ours(scenario)
    except BadLine as wrong:
        return wrong.mistakes
    return ()


def record(managers: Managers, scenario: Json) -> Json:
    """The scenario with what the kubelet did.

    It ends before a step that the kubelet does not survive (`ended` says how), and has no steps if it refuses
    to start (`refused` says why).
    """
    head = {key: value for key, value in scenario.items() if key not in ("refused", "ended", "steps")}
    return _played(managers, head, _listed(scenario["steps"]))


def drawn(managers: Managers, seed: int, kind: str, version: str) -> Json:
    return _played(managers, *scenarios.start(seed, kind, version))


def _listed(steps: list[Json]) -> Steps:
    for step in steps:
        _verdict = yield step


def _played(managers: Managers, head: Json, steps: Steps) -> Json:
    refused = managers.node({key: head[key] for key in ("name", "machine", "kubeletConfig")})
    if refused is not None:
        return head | {"steps": [], "refused": refused}
    found: list[Json] = []
    verdict: bool | None = None
    with suppress(StopIteration):
        while True:
            step = steps.send(verdict)
            if "delete" in step:
                managers.delete(step["delete"])
                verdict = None
            else:
                try:
                    answer = managers.create(step["create"])
                except Hung as hung:
                    answer = {"panicked": str(hung)}
                if "panicked" in answer:
                    return head | {"steps": found, "ended": answer["panicked"]}
                verdict, step = answer["admitted"], step | {"expect": answer}
            found.append(step)
    return head | {"steps": found}


def random_here(managers: Managers, recorded: Json, difference: Difference, *, seconds: float = 6) -> bool:
    """Whether the kubelet itself, asked the same again, sometimes does something else at this step.

    Only recordings that are alike up to the step are compared. Where chance before it lets hardly any be
    alike, chance cannot be told from a mistake, and it is taken to be at work. The time only ends the look
    for more once there were ATTEMPTS. That a kubelet starts, or that the rules fall over, is never chance.
    """
    if difference.what in ("start", "crashed"):
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


def differences(recorded: Json, tally: Counter[str]) -> Iterator[Difference]:
    """The first difference of each mode; `tally` counts decisions, and where chance excused one."""
    ours, theirs = refusals(recorded), recorded.get("refused")
    if not ours and theirs is None:
        for mode in ("observed", "alone"):
            yield from _first(recorded, mode, tally)
        return
    tally["refused"] += 1
    # The kubelet stops at its first reason; all of ours are such reasons, and one is at the same field.
    field = next((field for words, field in TOPICS.items() if words in (theirs or "")), None)
    reasons = all(one.message.startswith(DOES_NOT_START) for one in ours)
    if not (field and reasons and any(one.where.endswith(f".{field}") for one in ours)):
        here = "\n".join(map(str, ours)) or "starts"
        yield Difference("start", 0, "start", here, "starts" if theirs is None else theirs)


def _first(recorded: Json, mode: str, tally: Counter[str]) -> Iterator[Difference]:
    ours, holders = Ours(recorded), dict[str, int]()
    tracked = recorded["kubeletConfig"].get("memoryManagerPolicy") == "Static"
    # Blocks of memory that leave, and whether several left at once since the node's state was last seen.
    leaving, loose = 0, False
    for at, step in enumerate(recorded["steps"]):
        if "delete" in step:
            ours.tell(step)
            leaving += holders.pop(step["delete"], 0)
            continue
        truth, pod = step["expect"], step["create"]
        try:
            answer = ours.create(pod)
        except Exception as error:  # noqa: BLE001 - rules that fall over disagree too, whatever they fell over
            yield Difference(mode, at, "crashed", repr(error), truth.get("reason", "admitted"))
            return
        loose |= tracked and leaving > 1
        wrong = {what: both for what, both in compared(answer, truth).items() if both[0] != both[1]}
        excuse = _excuse(wrong, answer, loose=loose)
        tally.update({"decisions": 1, "admitted": truth["admitted"], excuse or "agreed": 1})
        if wrong and not excuse:
            what = next(iter(wrong))
            yield Difference(mode, at, what, *wrong[what])
            return
        name, leaving = pod["metadata"]["name"], 0
        containers = len(pod["spec"].get("initContainers", [])) + len(pod["spec"]["containers"])
        if truth["admitted"]:
            holders[name], loose = containers, False
        else:
            leaving = containers
        if mode == "observed" or excuse:
            seen = {field: truth[field] for field in OBSERVED if field in truth}
            ours.tell({"observed": {"pod": name, **seen}})


def _excuse(wrong: Mapping[str, Both], answer: Json, *, loose: bool) -> str:
    """What chance explains all that is wrong; empty, if none does."""
    chosen = any("choices" in given for given in answer["containers"].values())
    if wrong and chosen and wrong.keys() <= {"amounts", "free"}:
        return "chosen"
    if not loose or wrong.keys() != {"free"}:
        return ""
    ours, theirs = (
        {zones: {name: n for name, n in bag.items() if not name.startswith(("memory", "hugepages-"))}
         for zones, bag in amounts.items()}
        for amounts in wrong["free"]
    )  # fmt: skip
    return "reordered" if ours == theirs else ""


def compared(ours: Json, theirs: Json) -> dict[str, Both]:
    """What both say of a pod, by name, the most important first; reasons where both refuse it."""
    if ours["admitted"] != theirs["admitted"]:
        return {"admitted": (_verdict(ours), _verdict(theirs))}
    if not ours["admitted"]:
        return {"reason": (_verdict(ours), _verdict(theirs))}
    columns = ("affinity", "preferred", "cpus", "amounts")
    both = {what: (_column(ours, what), _column(theirs, what)) for what in columns}
    return both | {"free": (_without_zeros(ours.get("free", {})), _without_zeros(theirs["free"]))}


def _verdict(answer: Json) -> object:
    return "admitted" if answer["admitted"] else answer.get("reason")


def _column(answer: Json, what: str) -> Json:
    """Of each container and, under no name, of the pod as a whole."""
    shared = {"": answer["shared"]} if any(answer.get("shared", {}).values()) else {}
    return {
        name: _without_zeros(given.get(what, {})) if what == "amounts" else given.get(what) or None
        for name, given in sorted((answer["containers"] | shared).items())
    }


def _without_zeros(amounts: Mapping[str, Mapping[str, int]]) -> Json:
    bags = {zones: {name: n for name, n in bag.items() if n} for zones, bag in sorted(amounts.items())}
    return {zones: bag for zones, bag in bags.items() if bag}
