"""Whether the programs of other projects are built can be asked without building any."""

import os
from pathlib import Path

import pytest

from tools.clusters import ecosystem

RELEASES = {each.shop.name: each.release for each in ecosystem.ALL}


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where they are kept; nothing is there. Nor is Go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["tools.clusters.ecosystem", "--cached"])
    return tmp_path / "numalign"


def test_those_that_the_cache_lacks_are_named(cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in RELEASES.keys() - {"kueue", "trainer"}:
        (cached / name / RELEASES[name]).mkdir(parents=True)
    (cached / "kueue" / "v0.1.0").mkdir(parents=True)

    assert ecosystem.main() == os.EX_UNAVAILABLE
    lacking = f"kueue {RELEASES['kueue']}, trainer {RELEASES['trainer']}"
    assert capsys.readouterr() == ("", f"not in the cache: {lacking}\n")


def test_all_of_a_full_cache_are_printed(cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [cached / name / release for name, release in RELEASES.items()]
    for folder in folders:
        folder.mkdir(parents=True)

    assert ecosystem.main() == 0
    assert capsys.readouterr().out.split() == [str(folder) for folder in folders]
