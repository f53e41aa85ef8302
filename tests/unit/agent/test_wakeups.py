"""A file that is written, replaced, made or taken away is a change; what is in it is not read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.wakeups import CHECKPOINTS, Wakeups, watched
from tests.worlds.notation import table


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    (tmp_path / "device-plugins").mkdir()
    (tmp_path / "device-plugins" / "plugin.sock").touch()
    for name in CHECKPOINTS[:3]:
        (tmp_path / name).write_text("{}")
    (tmp_path / "pods").mkdir()
    (tmp_path / "kubelet.sock").touch()
    return tmp_path


def replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("{}")
    new.replace(path)


@pytest.mark.parametrize("change", table([
    ("written",            lambda folder: (folder / "cpu_manager_state").write_text("{} ")),
    ("replaced",           lambda folder: replaced(folder / "memory_manager_state")),
    ("in a folder",        lambda folder: replaced(folder / "device-plugins/kubelet_internal_checkpoint")),
    ("gone",               lambda folder: (folder / "cpu_manager_state").unlink()),
    ("a pod came",         lambda folder: (folder / "pods" / "uid").mkdir()),
    ("a plugin ended",     lambda folder: (folder / "device-plugins" / "plugin.sock").unlink()),
    ("the socket is gone", lambda folder: (folder / "kubelet.sock").unlink()),
]))  # fmt: skip
def test_a_change_is_noticed_once(kubelet: Path, change: Callable[[Path], object]) -> None:
    wakeups = Wakeups(watched(kubelet, kubelet / "kubelet.sock"))
    assert not wakeups.changed()
    change(kubelet)
    assert wakeups.changed()
    assert not wakeups.changed()


def test_checkpoints_that_come_later_are_noticed(tmp_path: Path) -> None:
    wakeups = Wakeups(watched(tmp_path, tmp_path / "kubelet.sock"))
    (tmp_path / "cpu_manager_state").write_text("{}")
    assert wakeups.changed()
    assert not wakeups.blind
    assert Wakeups(watched(tmp_path / "nothing", tmp_path / "kubelet.sock")).blind
