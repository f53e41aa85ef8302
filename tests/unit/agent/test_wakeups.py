"""A file that is written, replaced, made or taken away is a change; what is in it is not read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.wakeups import CHECKPOINTS, Wakeups, watched


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


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "cpu_manager_state").write_text("{} "),
        lambda folder: replaced(folder / "memory_manager_state"),
        lambda folder: replaced(folder / "device-plugins/kubelet_internal_checkpoint"),
        lambda folder: (folder / "cpu_manager_state").unlink(),
        lambda folder: (folder / "pods" / "uid").mkdir(),
        lambda folder: (folder / "device-plugins" / "plugin.sock").unlink(),
        lambda folder: (folder / "kubelet.sock").unlink(),
    ],
    ids=["written", "replaced", "in a folder", "gone", "a pod came", "a plugin ended", "the socket is gone"],
)
def test_a_change_is_noticed_once(kubelet: Path, change: Callable[[Path], object]) -> None:
    wakeups = Wakeups(watched(kubelet, kubelet / "kubelet.sock"))
    assert not wakeups.changed()
    change(kubelet)
    assert wakeups.changed()
    assert not wakeups.changed()


def test_where_no_checkpoint_is_nothing_tells_of_changes(kubelet: Path, tmp_path: Path) -> None:
    nowhere = Wakeups(watched(tmp_path / "nothing", kubelet / "kubelet.sock"))
    assert nowhere.blind
    assert not Wakeups(watched(kubelet, kubelet / "kubelet.sock")).blind


def test_checkpoints_that_come_later_are_noticed(tmp_path: Path) -> None:
    wakeups = Wakeups(watched(tmp_path, tmp_path / "kubelet.sock"))
    (tmp_path / "cpu_manager_state").write_text("{}")
    assert wakeups.changed()
    assert not wakeups.blind
