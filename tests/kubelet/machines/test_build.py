"""What a machine lacks to run real kubelets is named before anything is built."""

import os
import shutil
from pathlib import Path

import pytest

from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import build


def test_the_usual_version_is_the_newest() -> None:
    assert [*build.versions()] == ["v1.34.4", "v1.36.3", build.USUAL]


async def test_unknown_version_is_refused() -> None:
    with pytest.raises(UnavailableError, match=r"no kubelet v1\.2\.3 here"):
        await build.find("v1.2.3")


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


@pytest.mark.parametrize("name", build.PACKAGES)
def test_each_version_has_its_own_programs(name: str) -> None:
    places = {build.place(shop, version, name) for version, shop in build.versions().items()}

    assert len(places) == len(build.versions())
