"""
The same rule in plain Go on the same nodes, as a lower bound of the time without an interpreter.

The source is in `floor/` and needs only the standard library. The program is built once, into the cache
outside the tree. Its numbers of nodes and its scores are compared with those of the columns, so that both
have done the same work.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from numalign.model.node import Node, Zone
from numalign.model.resources import ZoneId
from tools.bench.fleets import NAMES, Case, Raw
from tools.bench.timing import Times
from tools.clusters.gotools import Workshop

SHOP = Workshop("floor", Path(__file__).with_name("floor"))
MIXED = "mixed"
"""In place of a policy: each node has its own."""

MISSING = "no go here: nothing is compared with plain Go"

_NANO = 1e-9


@dataclass(frozen=True, slots=True)
class Load:
    """How many questions are asked, and how often each of them."""

    questions: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Scores:
    """The sums of the scores of all nodes that take the pod, by strategy."""

    least_numa_nodes: int
    most_allocated: int


@dataclass(frozen=True, slots=True)
class Pass:
    """The program's results, with times in seconds; there are no scores if a policy chooses no zones."""

    feasible: Sequence[int]
    scores: Sequence[Scores]
    verdicts: Times
    scored: Sequence[float]


@dataclass(frozen=True, slots=True)
class Floor:
    """The built program."""

    program: Path

    def passes(
        self, case: Case, nodes: Sequence[Node], policies: Sequence[str], load: Load
    ) -> dict[str, Pass]:
        """Ask the questions of a case under each of these policies or `MIXED`; return results by policy."""
        asked = orjson.dumps(_document(case, nodes, policies, load))
        with tempfile.NamedTemporaryFile() as file:
            file.write(asked)
            file.flush()
            found = subprocess.run([self.program, file.name], stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own
        by_policy = orjson.loads(found.stdout)["Policies"]
        return {policy: _pass(by_policy[policy]) for policy in policies}


def find() -> Floor:
    """Return the program, built if it is not in the cache; raise `UnavailableError` if there is no Go."""
    made_from = b"".join(file.read_bytes() for file in sorted(SHOP.folder.iterdir()))
    program = SHOP.cache(hashlib.sha256(made_from).hexdigest()[:12], "floor")
    go = SHOP.compiler(otherwise=MISSING)
    if not program.exists():
        _build(go, program)
    return Floor(program)


def _build(go: str, program: Path) -> None:
    """Build the program; concurrent builds are safe, as each moves a complete program into place."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as unfinished:
        made = Path(unfinished) / program.name
        words = (go, "build", "-mod=readonly", "-trimpath", "-o", str(made), ".")
        environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
        subprocess.run(words, cwd=SHOP.folder, env=environment, stdout=sys.stderr, check=True)  # noqa: S603 - Go
        made.rename(program)


def _document(case: Case, nodes: Sequence[Node], policies: Sequence[str], load: Load) -> Raw:
    """Return the nodes and questions of a case as the program reads them."""
    layouts = {costs: at for at, costs in enumerate(dict.fromkeys(map(_costs, nodes)))}
    return {
        "Nodes": [
            {
                "Zones": [_zone(zone) for zone in node.zones],
                "Layout": layouts[_costs(node)],
                "Policy": node.policy,
            }
            for node in nodes
        ],
        "Layouts": [[[cost for _, cost in zone] for zone in costs] for costs in layouts],
        "Policies": policies,
        "Questions": [case.asked(number) for number in range(load.questions)],
        "MaxZones": nodes[0].max_zones,
        "Rounds": load.rounds,
    }


def _costs(node: Node) -> tuple[tuple[tuple[ZoneId, int], ...], ...]:
    return tuple(zone.costs for zone in node.zones)


def _zone(zone: Zone) -> Raw:
    told = {"Capacity": zone.capacity, "Allocatable": zone.allocatable, "Free": zone.free}
    return {name: [amounts[each] for each in NAMES] for name, amounts in told.items()}


def _pass(answers: Sequence[Raw]) -> Pass:
    verdicts, scored = (
        [took for each in answers for took in each[key] or ()] for key in ("VerdictsNs", "ScoresNs")
    )
    return Pass(
        feasible=[each["Feasible"] for each in answers],
        scores=[_scores(each["Scores"]) for each in answers if each["Scores"]],
        verdicts=Times.of([took * _NANO for took in verdicts]),
        scored=[took * _NANO for took in scored],
    )


def _scores(found: Raw) -> Scores:
    return Scores(found["LeastNUMANodes"], found["MostAllocated"])
