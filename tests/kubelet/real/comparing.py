"""Where a prediction and a kubelet part, and how many decisions were looked at.

Two things are the kubelet's free choice and no difference: which of equal devices it gives (a prediction says
where that is so), and nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.kubelet.real.published import Predicted
from tools.clusters.api_requests import Json
from tools.clusters.kubelets.kept import Amounts, Kept

ADMITS = "admits"
MEMORY = ("memory", "hugepages-")


@dataclass(frozen=True, slots=True)
class Difference:
    """One decision that was predicted wrongly: of which pod and in what, and what each says."""

    pod: str
    what: str
    predicted: object
    happened: object

    def __str__(self) -> str:
        """A line for people."""
        return f"{self.pod}, {self.what}: predicted {self.predicted}, the kubelet {self.happened}"


@dataclass(slots=True)
class Tally:
    """All that was compared."""

    decisions: int = 0
    admitted: int = 0
    invalid: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        """One line."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.compared.items()))
        parts = f"{self.decisions} pods, {self.admitted} admitted; {counts} compared"
        return f"{parts}; {len(self.differences)} differ; known by {dict(self.known)}"

    def add(self, pod: Json, predicted: Predicted, status: Json, kept: Kept | None) -> None:
        """Compare one decision; `kept` is None for a pod that was refused."""
        self.decisions += 1
        self.known[f"{predicted.known}, {predicted.basis}"] += 1
        self.admitted += kept is not None
        for what, ours, theirs in _compared(pod, predicted, status, kept):
            self.compared[what] += 1
            if ours != theirs:
                happened = f"{theirs} {status.get('message', '')}".rstrip()
                self.differences.append(Difference(pod["metadata"]["name"], what, ours, happened))
                return


def _compared(
    pod: Json, predicted: Predicted, status: Json, kept: Kept | None
) -> Iterator[tuple[str, object, object]]:
    """What was looked at, and what each says of it; what comes first matters most."""
    yield "verdicts", predicted.reason or ADMITS, status.get("reason", "") if kept is None else ADMITS
    if kept is None or predicted.reason:
        return
    yield "CPU ids", dict(predicted.cpus), dict(kept.cpus)
    for name in (one["name"] for one in pod["spec"]["containers"]):
        ours = predicted.amounts.get(name, {})
        yield "memory", _memory_of(ours), _memory_of(kept.memory.get(name, {}))
        theirs = kept.devices.get(name, {})
        for resource in sorted(_names(ours) | _names(theirs)):
            if not memory(resource) and resource != "cpu":
                yield "devices", *_devices(resource, ours, theirs, predicted.chosen)


def memory(resource: str) -> bool:
    """Whether the memory manager gives it out."""
    return resource.startswith(MEMORY)


def _devices(resource: str, ours: Amounts, theirs: Amounts, chosen: frozenset[str]) -> tuple[object, object]:
    """By zones; where the kubelet may choose, how many there are in all."""
    both = [
        {zones: bag[resource] for zones, bag in one.items() if bag.get(resource)} for one in (ours, theirs)
    ]
    if resource in chosen:
        return sum(both[0].values()), sum(both[1].values())
    return both[0], both[1]


def _memory_of(amounts: Amounts) -> Mapping[tuple[int, ...], Mapping[str, int]]:
    bags = {
        zones: {name: amount for name, amount in bag.items() if amount and memory(name)}
        for zones, bag in sorted(amounts.items())
    }
    return {zones: bag for zones, bag in bags.items() if bag}


def _names(amounts: Amounts) -> set[str]:
    return {name for bag in amounts.values() for name, amount in bag.items() if amount}
