"""What a machine lacks to run real kubelets is named before anything is built."""

import os
import shutil
from pathlib import Path

import pytest

from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import build


async def test_kubelets_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UnavailableError, match="want user 0"):
        await build.find()


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: tool if tool == "sh" else None)
    assert build.missing() == ["no unshare and no mount on PATH: install util-linux"]


async def test_missing_go_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "missing", list)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=f"install Go to build it; looked for {tmp_path}"):
        await build.find()
