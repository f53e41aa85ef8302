"""
What the conformance tests share: readers of the recorded pods and zones, and the tables at the end of a run.

The recordings are read here and not by the doors' decoders, so that what is compared are the rules alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pytest

from numalign.model import resources
from numalign.model.node import Zone
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import ZoneId

Json = dict[str, Any]

TABLES = pytest.StashKey[list[str]]()


@dataclass
class Ledger:
    """How the cases of one project turned out: as the project says, or otherwise and why.

    A case that differs must be named in `different`, and a case that is named there must differ.
    """

    project: str
    different: Mapping[str, StrEnum]
    outcomes: Counter[str] = field(default_factory=Counter)

    def compare(self, case: Json, *, ours: object, theirs: object) -> None:
        """Settle one case; fails if it differs and nobody said so, or agrees although somebody did."""
        reason = self.different.get(case["id"])
        self.outcomes[reason.name if reason else "agree"] += 1
        if reason:
            assert ours != theirs, f"agrees now, so it is not different for {reason.name}"
        else:
            assert ours == theirs

    def leave_out(self, count: int) -> None:
        """Count cases to which no rule answers."""
        self.outcomes["no counterpart"] += count

    def lines(self) -> list[str]:
        """One line for each outcome, the most frequent first."""
        return [f"{self.project:<20}{outcome:<24}{n:>5}" for outcome, n in self.outcomes.most_common()]


class Read(NamedTuple):
    """The readers of pods and zones, as a test passes them on."""

    pod: Callable[[Json], Pod]
    zones: Callable[[Json], tuple[Zone, ...]]


@pytest.fixture(scope="session")
def tables(pytestconfig: pytest.Config) -> list[str]:
    """Lines that the run shows at its end, whatever is captured."""
    return pytestconfig.stash.setdefault(TABLES, [])


@pytest.fixture(scope="session")
def new_ledger(tables: list[str]) -> Iterable[Callable[[str, Mapping[str, StrEnum]], Ledger]]:
    """Makes a ledger whose outcomes are shown at the end of the run."""
    made: list[Ledger] = []

    def make(project: str, different: Mapping[str, StrEnum]) -> Ledger:
        made.append(Ledger(project, different))
        return made[-1]

    yield make
    for ledger in made:
        tables.extend(ledger.lines())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(TABLES, [])
    if lines:
        terminalreporter.section("conformance")
        terminalreporter.write_line("\n".join(lines))


@pytest.fixture(scope="session")
def pod_of() -> Callable[[Json], Pod]:
    """Reads a pod from its spec: amounts stand in `resources`, or in the container itself."""
    return _pod


@pytest.fixture(scope="session")
def zones_of() -> Callable[[Json], tuple[Zone, ...]]:
    """Reads the NUMA nodes among the zones of a NodeResourceTopology."""
    return _zones


def _pod(spec: Json) -> Pod:
    whole = spec.get("resources", {})
    return Pod(
        name=spec.get("name", "pod"),
        containers=(
            *(
                _container(at, one, _INIT[one.get("restartPolicy")])
                for at, one in _listed(spec, "initContainers")
            ),
            *(_container(at, one, Role.APP) for at, one in _listed(spec, "containers")),
        ),
        pod_requests=resources.parse(whole["requests"]) if "requests" in whole else None,
        pod_limits=resources.parse(whole["limits"]) if "limits" in whole else None,
        overhead=resources.parse(spec.get("overhead", {})),
    )


_INIT = {None: Role.INIT, "Always": Role.SIDECAR}


def _listed(spec: Json, key: str) -> Iterable[tuple[int, Json]]:
    return enumerate(spec.get(key) or [])


def _container(at: int, written: Json, role: Role) -> Container:
    amounts = written.get("resources", written)
    return Container(
        name=written.get("name", f"{role}-{at}"),
        role=role,
        requests=resources.parse(amounts.get("requests", {})),
        limits=resources.parse(amounts.get("limits", {})),
    )


def _zones(topology: Json) -> tuple[Zone, ...]:
    nodes = (zone for zone in topology.get("zones") or () if zone.get("type", "Node") == "Node")
    numbered = ((zone, re.search(r"\d+$", zone["name"])) for zone in nodes)
    return tuple(_zone(ZoneId(int(number[0])), zone) for zone, number in numbered if number)


def _zone(number: ZoneId, zone: Json) -> Zone:
    """The amounts of a zone; what is allocatable if nobody says is available, and that is the hardware."""
    listed = zone.get("resources", [])
    free = {one["name"]: one["available"] for one in listed}
    allocatable = free | {one["name"]: one["allocatable"] for one in listed if "allocatable" in one}
    capacity = allocatable | {one["name"]: one["capacity"] for one in listed if "capacity" in one}
    costs = (
        (ZoneId(int(cost["name"].removeprefix("node-"))), cost["value"]) for cost in zone.get("costs", [])
    )
    bags = [resources.parse(bag) for bag in (capacity, allocatable, free)]
    return Zone(number, zone["name"], bags[0], bags[1], bags[2], costs=tuple(costs))
