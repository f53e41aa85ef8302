"""Instances of inotify are counted before kubelets start, and the limit is raised if too few are left."""

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import inotify
from tools.clusters.kubelets.inotify import INSTANCES, SPARE

READ_ONLY = Path("/proc/sys/kernel/ngroups_max")
"""A number below /proc/sys that nobody can write."""


@contextmanager
def files(most: int) -> Iterator[None]:
    """During the block this process cannot open more files than this, nor have more instances."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def opened() -> int:
    """How many files this process has open."""
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    return file


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files in place of instances, of which other programs may hold nearly all that a user can have."""

    def new(flags: int) -> int:
        try:
            return os.open(os.devnull, flags)
        except OSError as error:
            ctypes.set_errno(error.errno or 0)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(inotify_init1=new))


def test_counting_stops_at_its_limit_and_keeps_no_instance(request: pytest.FixtureRequest) -> None:
    before = opened()
    assert 0 <= inotify.left(3) <= 3
    assert opened() == before

    request.getfixturevalue("plenty")
    assert inotify.left(3) == 3
    assert opened() == before


@pytest.mark.usefixtures("plenty")
def test_counting_stops_at_the_limit_of_open_files() -> None:
    with files(opened() + 10):
        assert 0 < inotify.left(100) < 100


def test_limit_stays_where_enough_are_left(limit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "left", lambda most: most)

    inotify.require(20, limit=limit)

    assert limit.read_text() == "128\n"


def test_limit_is_raised_where_too_few_are_left(
    limit: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inotify, "left", lambda most: min(most, int(limit.read_text()) - 9))

    inotify.require(20, limit=limit)

    assert int(limit.read_text()) == 128 + 20 * INSTANCES + SPARE
    assert capsys.readouterr().err == (
        "kubelets: raised fs.inotify.max_user_instances from 128 to 280 for 20 kubelets\n"
    )


def test_fixed_limit_allows_as_many_kubelets_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "left", lambda most: min(most, 120))

    inotify.require(20, limit=READ_ONLY)

    with pytest.raises(
        UnavailableError,
        match=r"21 kubelets need 126 instances of inotify, and only 120 .* or start at most 20$",
    ):
        inotify.require(21, limit=READ_ONLY)
