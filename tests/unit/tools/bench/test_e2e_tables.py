"""How the comparison is told: to people, to a page, and to a program."""

import re
from dataclasses import replace

import pytest

from tools.bench.e2e_cells import AGENTS, Cell
from tools.bench.e2e_tables import Measured, Outcome

GOOD = Cell(
    placed=4,
    pods=4,
    rejections={},
    seconds=12.3,
    writes={"controller create pods": 4, "system:kube-scheduler create pods/binding": 4},
    slot=3.5,
    busy=0.5,
    whole=7,
    agreements={"same": 3, "needless": 1},
    unaligned=0,
    waiting=[],
    astray=[],
)
BAD = replace(
    GOOD,
    placed=3,
    rejections={"TopologyAffinityError": 5},
    seconds=None,
    agreements={"unrecorded": 4},
    waiting=["task-1"],
)


def outcome(**cells: Cell) -> Outcome:
    found = Outcome({"seeds": (1,)})
    found.cells.extend(Measured(name, 1, 1, cell) for name, cell in cells.items())
    return found


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line)


def test_a_row_for_each_run_and_a_figure_for_each_seed() -> None:
    both = outcome(stock=BAD, bind=GOOD)
    both.cells.append(Measured("bind", 1, 2, replace(GOOD, seconds=14)))
    [title, _, stock, bind] = both.text().split("\n\n")[0].splitlines()
    assert title == "topologies 1 s late"
    assert cells(stock) == ["stock scheduler", "5", "3", "-", "2.0", "3.5", "7.0", "0", "-"]
    assert cells(bind) == [
        "+ scorer with bind",
        "0 0",
        "4 4",
        "12 14",
        "2.0",
        "3.5",
        "7.0",
        "0 0",
        "0+0/3 0+0/3",
    ]


def test_behind_gates_it_is_told_apart_whose_node_was_chosen() -> None:
    both = outcome(second=GOOD, gates=replace(BAD, pinned=2))
    [_, _, gates, second] = both.text().split("\n\n")[0].splitlines()
    assert cells(gates)[:3] == ["+ gates", "2+3", "3"]
    assert cells(gates)[-1] == "-"
    assert cells(second)[:3] == ["+ second scheduler", "0", "4"]


def test_behind_gates_nobody_says_which_records_are_believed() -> None:
    [_, _, gates] = (
        outcome(gates=replace(GOOD, pinned=0, agreements={"same": 3, "different": 1}))
        .text()
        .split("\n\n")[0]
        .splitlines()
    )
    assert cells(gates)[-1] == "1/4"


@pytest.mark.parametrize(
    ("name", "cell", "met"),
    [
        pytest.param("gates", replace(BAD, pinned=0), True, id="a pod that was let go without a node"),
        pytest.param("gates", replace(BAD, pinned=1), False, id="a pod whose node was chosen"),
        pytest.param("second", GOOD, True, id="none by the second scheduler"),
        pytest.param("second", BAD, False, id="one by the second scheduler"),
    ],
)
def test_whoever_chooses_a_node_is_to_choose_one_that_takes_the_pod(
    name: str, cell: Cell, *, met: bool
) -> None:
    assert [*outcome(**{name: cell}).aims().values()] == [met]


AIMS = (
    "with bind, no kubelet rejects a pod",
    "with bind, no record is believed that is not what the kubelet gave",
    "with bind, as many pods are placed as in any other run",
)


@pytest.mark.parametrize(
    ("bind", "missed"),
    [
        pytest.param(GOOD, [], id="all is well"),
        pytest.param(replace(GOOD, rejections={"TopologyAffinityError": 1}), AIMS[:1], id="a rejection"),
        pytest.param(
            replace(GOOD, agreements={"same": 3, "different": 1}, believed=1), AIMS[1:2], id="a wrong record"
        ),
        pytest.param(replace(GOOD, agreements={"same": 3, "different": 1}), [], id="one that was taken back"),
        pytest.param(replace(GOOD, agreements={"unrecorded": 4}), AIMS[1:2], id="no records at all"),
        pytest.param(replace(GOOD, placed=3), AIMS[2:], id="fewer than with the stock scheduler"),
    ],
)
def test_aims_are_met_or_missed(bind: Cell, missed: list[str]) -> None:
    aims = outcome(stock=GOOD, bind=bind).aims()
    assert tuple(aims) == AIMS
    assert [aim for aim, met in aims.items() if not met] == list(missed)


@pytest.mark.parametrize(
    ("name", "cell", "met"),
    [
        pytest.param("stock", replace(BAD, placed=2), [True], id="two run after all"),
        pytest.param("stock", replace(BAD, placed=1), [False], id="one runs"),
        pytest.param("bind", replace(BAD, placed=2), [True, False], id="with bind, none may be rejected"),
    ],
)
def test_of_the_small_case_two_run(name: str, cell: Cell, met: list[bool]) -> None:
    found = outcome()
    found.small.append(Measured(name, 0, 0, cell))
    assert list(found.aims().values()) == met


def test_what_was_not_measured_has_no_aims() -> None:
    assert outcome(stock=BAD).aims() == {}


def test_agents_stand_after_all_exporters() -> None:
    found = Outcome({"seeds": (1,)})
    found.cells.extend(Measured("bind", delay, 1, GOOD) for delay in (AGENTS, 10.0, 1.0))

    heads = [part.splitlines()[0] for part in found.text().split("\n\n")[:3]]

    assert heads == ["topologies 1 s late", "topologies 10 s late", "topologies by agents"]
