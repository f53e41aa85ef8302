"""The agent is measured as the real program it is, beside a kubelet that is played."""

import os
from pathlib import Path

import orjson
import pytest

from tools.bench import agent
from tools.bench.agent_sites import Lateness
from tools.bench.sections import SECTIONS

QUICK = ("--played", "--pods", "3", "--rate", "5", "--seconds", "0.5", "--settling", "0")


def test_its_own_process_has_memory_and_takes_time() -> None:
    before = agent.processor_seconds(os.getpid())
    sum(range(3_000_000))

    assert agent.processor_seconds(os.getpid()) > before
    assert agent.resident_mib(os.getpid()) > 5


def test_late_is_what_was_told_after_it_was_taken() -> None:
    lateness = Lateness({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.5, "b": 2.25, "d": 9.0})
    assert lateness.seconds() == [0.25, 0.5]

    lateness.forget()
    assert lateness.seconds() == []


@pytest.mark.timeout(90)
def test_a_quick_run_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert agent.main([*QUICK, "--json", str(tmp_path / "found.json")]) == 0

    found = orjson.loads((tmp_path / "found.json").read_bytes())
    assert found["told"] > 0
    assert 10 < found["rest"]["mib"] < 200
    assert "kubelet: played" in capsys.readouterr().out
    [section] = [each for each in SECTIONS if each.part == "agent"]
    assert len([*section.rows(found)]) == 8
