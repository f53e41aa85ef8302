"""What the scheduling rate is told, how runs are summed up, and the table."""

import pytest

from tools.bench import scheduling_rate
from tools.bench.scheduling_rate import Outcome
from tools.bench.scheduling_site import Run, busy, ticks

NUMBERS = {"nodes": 10, "pods": 20, "repeats": 2, "cores": 2}


def run(rate: float, **used: float) -> Run:
    """Twenty-one pods at an even pace."""
    return Run([number / rate for number in range(21)], used)


def outcome(**rates: list[float]) -> Outcome:
    found = Outcome(NUMBERS)
    for name, each in rates.items():
        for rate in each:
            found.add(name.replace("_", "-"), run(rate))
    return found


def test_a_rate_is_counted_from_the_first_pod_to_the_last() -> None:
    assert Run([5.0, 6.0, 7.0], {}).rate == 1


def test_pods_that_come_late_are_not_in_the_steady_rate() -> None:
    late = Run([*(number / 10 for number in range(19)), 5.0, 9.0], {})
    assert late.rate < 3
    assert late.steady == pytest.approx(10)


def test_time_on_a_processor_is_told_for_a_pod() -> None:
    assert run(1, extender=0.2).cpu() == {"extender": pytest.approx(10)}


def test_what_others_did_is_told_in_processors() -> None:
    shared = run(1, extender=0.2, others=30)
    assert shared.others == pytest.approx(1.5)
    assert "others" not in shared.cpu()


def test_a_ratio_is_one_of_cells_of_the_same_round() -> None:
    found = outcome(numalign_bind=[90, 10, 30], empty_bind=[100, 20, 100], none=[180, 20])
    assert found.ratio("numalign-bind", "empty-bind") == pytest.approx(0.5)
    assert found.ratio("numalign-bind", "none") == pytest.approx(0.5)


def test_without_the_other_cell_there_is_no_ratio() -> None:
    assert outcome(numalign_bind=[90]).ratio("numalign-bind", "empty-bind") is None


@pytest.mark.parametrize(
    ("rate", "met"), [pytest.param(90, True, id="nine tenths"), pytest.param(89, False, id="less")]
)
def test_nine_tenths_of_the_empty_extender_are_aimed_at(rate: float, met: bool) -> None:  # noqa: FBT001  a column of the table
    assert [*outcome(numalign_rank=[rate], empty=[100]).aims().values()] == [met]


def test_what_was_not_measured_has_no_aims() -> None:
    assert outcome(none=[1]).aims() == {}


def test_idle_processors_do_not_count_as_busy() -> None:
    assert busy("cpu  100 20 3 4000 500 6 7 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n") == 136


def test_the_kernel_is_asked_what_a_program_of_any_name_used() -> None:
    assert ticks("7 (a) (b 1) S 1 7 7 0 -1 4194304 100 0 0 0 31 11 0 0 20 0 1 0 5 0 0") == 42


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(["--cells", "none,nobody"], "nobody: the cells are none, empty", id="a cell"),
        pytest.param(["--pods", "9"], "9 is not a number of at least 10", id="too few pods"),
        pytest.param(["--nodes", "some"], "some is not a number", id="not a number"),
        pytest.param(["--repeats", "0"], "0 is not a number of at least 1", id="no rounds"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        scheduling_rate.main(flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
