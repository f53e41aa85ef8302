"""The plugin's manifest names the archive of every platform."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.release.artefacts import Artefact
from tools.release.plugin import krew
from tools.release.plugin.targets import PLATFORMS

URL = "https://example.com/v1.2.3"
ARCHIVES = {
    platform: Artefact(Path(f"kubectl-numa_1.2.3_{platform.name}.tar.gz"), 1, f"{number:064x}")
    for number, platform in enumerate(PLATFORMS)
}


@pytest.fixture
def plugin() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(krew.manifest(ARCHIVES, version="1.2.3", url=URL))
    return loaded


def test_every_platform_has_its_archive(plugin: dict[str, Any]) -> None:
    assert [(each["uri"], each["sha256"]) for each in plugin["spec"]["platforms"]] == [
        (f"{URL}/{archive.name}", archive.sha256) for archive in ARCHIVES.values()
    ]


def test_a_platform_without_an_archive_is_left_out() -> None:
    some = dict(list(ARCHIVES.items())[:1])
    loaded = yaml.safe_load(krew.manifest(some, version="1.2.3", url=f"{URL}/"))
    [platform] = loaded["spec"]["platforms"]
    assert platform["uri"] == f"{URL}/kubectl-numa_1.2.3_linux_amd64.tar.gz"
