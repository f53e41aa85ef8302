"""Instances of inotify are counted before kubelets start, and the limit is raised if too few are left."""

from pathlib import Path

import pytest

from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import inotify
from tools.clusters.kubelets.inotify import INSTANCES, SPARE

READ_ONLY = Path("/proc/sys/kernel/ngroups_max")
"""A number below /proc/sys that nobody can write."""


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    return file


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
