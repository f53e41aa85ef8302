"""Files that are replaced while we watch, on a clock that the test turns."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from numalign.runtime import files
from tests.worlds.notation import table


class Turns:
    """A sleep that changes the world, one step per turn, and ends the watch after the last."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self.steps:
            raise asyncio.CancelledError
        self.steps.pop(0)()


def content(path: Path) -> str:
    return path.read_text() if path.exists() else "gone"


async def changes(path: Path, *steps: Callable[[], object]) -> list[str]:
    seen: list[str] = []
    turns = Turns(*steps)

    async def changed() -> None:
        seen.append(content(path))

    with pytest.raises(asyncio.CancelledError):
        await files.watch([path], since=files.stamps([path]), every=7.5, changed=changed, sleep=turns.sleep)
    assert turns.slept == [7.5] * (len(steps) + 1)
    return seen


def nothing() -> None:
    """Let a turn pass."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "watched"
    path.write_text("old")
    return path


def written(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(("steps", "seen"), table([
    ("none without a change",         [str, str], []),
    ("each change once",              [written("newer"), str, written("newest!")], ["newer", "newest!"]),
    ("a missing file and its return", [Path.unlink, str, written("back")], ["gone", "back"]),
]))  # fmt: skip
async def test_watch_sees(path: Path, steps: list[Callable[[Path], object]], seen: list[str]) -> None:
    assert await changes(path, *(partial(step, path) for step in steps)) == seen


async def test_replacement_of_equal_size_and_time_is_a_change(path: Path) -> None:
    def replace() -> None:
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        other = path.with_name("other")
        other.write_text("new")
        os.utime(other, ns=times)
        other.replace(path)

    assert await changes(path, replace) == ["new"]


async def test_a_secret_swapped_by_its_link_is_a_change(tmp_path: Path) -> None:
    # As the kubelet mounts it: tls.crt -> ..data/tls.crt, ..data -> ..1, and later ..data -> ..2.
    for name in ("1", "2"):
        (tmp_path / f"..{name}").mkdir()
        (tmp_path / f"..{name}" / "tls.crt").write_text(name)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "tls.crt").symlink_to("..data/tls.crt")

    def swap() -> None:
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    assert await changes(tmp_path / "tls.crt", nothing, swap) == ["2"]


async def test_a_change_between_reading_and_watching_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "watched"
    since, noticed = files.stamps([path]), asyncio.Event()
    await asyncio.to_thread(path.write_text, "changed meanwhile")

    async def changed() -> None:
        noticed.set()

    with pytest.raises(asyncio.CancelledError):
        await files.watch([path], since=since, every=1, changed=changed, sleep=Turns(nothing).sleep)
    assert noticed.is_set()
