"""What plain Go is told, and what is made of its answer. Runs of the benchmark hold its rule against ours."""

import json
import sys
from pathlib import Path

import pytest

from bench.fleets import Case
from bench.floor import Floor, Load, Pass, Scores
from bench.timing import Times
from numalign.model.intent import Policy

CASE = Case(3, 2, Policy.NONE)

ECHO = """\
#!{python}
import json, sys
asked = json.load(open(sys.argv[1]))
answer = {answer}
print(json.dumps({{"Policies": {{policy: [answer(asked)] for policy in asked["Policies"]}}}}))
"""


def program(folder: Path, answer: str) -> Floor:
    """A program that answers so about what it is asked."""
    file = folder / "floor"
    file.write_text(ECHO.format(python=sys.executable, answer=answer))
    file.chmod(0o755)
    return Floor(file)


def asked_of(folder: Path, load: Load) -> dict[str, object]:
    """What the program reads."""
    keep = f'json.dump(asked, open("{folder / "asked"}", "w"))'
    nothing = '{"Feasible": 0, "Scores": None, "VerdictsNs": [], "ScoresNs": None}'
    floor = program(folder, f"lambda asked: {keep} or {nothing}")
    floor.passes(CASE, CASE.members(), [Policy.RESTRICTED], load)
    found: dict[str, object] = json.loads((folder / "asked").read_text())
    return found


def test_it_is_told_of_every_zone_and_of_the_distances(tmp_path: Path) -> None:
    found = asked_of(tmp_path, Load(questions=2, rounds=3))
    zone = CASE.members()[0].zones[1]
    names = ("cpu", "memory", "nvidia.com/gpu")
    told = {"Capacity": zone.capacity, "Allocatable": zone.allocatable, "Free": zone.free}
    [nodes, rest] = [found.pop("Nodes"), found]
    assert isinstance(nodes, list)
    assert len(nodes) == 3
    assert nodes[0][1] == {name: [amounts[each] for each in names] for name, amounts in told.items()}
    assert rest == {
        "Costs": [[10, 32], [32, 10]],
        "Policies": ["restricted"],
        "Questions": [list(CASE.asked(0)), list(CASE.asked(1))],
        "MaxZones": 8,
        "Rounds": 3,
    }


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(
            '{"Feasible": 2, "Scores": {"LeastNUMANodes": 7, "MostAllocated": 8},'
            ' "VerdictsNs": [3000, 1000, 2000], "ScoresNs": [5000]}',
            Pass([2], [Scores(7, 8)], Times(2e-6, 1e-6), [5e-6]),
            id="with scores",
        ),
        pytest.param(
            '{"Feasible": 3, "Scores": None, "VerdictsNs": [1000], "ScoresNs": None}',
            Pass([3], [], Times(1e-6, 1e-6), []),
            id="without",
        ),
    ],
)
def test_nanoseconds_are_summed_up(tmp_path: Path, answer: str, found: Pass) -> None:
    policies = [Policy.NONE, Policy.RESTRICTED]
    said = program(tmp_path, f"lambda asked: {answer}").passes(CASE, CASE.members(), policies, Load(1, 1))
    assert list(said) == policies
    for each in said.values():
        assert each.feasible == found.feasible
        assert each.scores == found.scores
        assert each.verdicts.median == pytest.approx(found.verdicts.median)
        assert each.verdicts.best == pytest.approx(found.verdicts.best)
        assert each.scored == pytest.approx(found.scored)
