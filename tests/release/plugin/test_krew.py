"""The manifest keeps the rules by which krew judges one."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.artefacts import Artefact
from release.plugin import krew
from release.plugin.targets import PLATFORMS

URL = "https://example.com/v1.2.3"
ARCHIVES = {
    platform: Artefact(Path(f"kubectl-numa_1.2.3_{platform.name}.tar.gz"), 1, f"{number:064x}")
    for number, platform in enumerate(PLATFORMS)
}


def mistakes(plugin: dict[str, Any]) -> list[str]:
    """What krew 0.4 refuses of a manifest: ValidatePlugin in its internal/index/validation/validate.go."""
    spec = plugin["spec"]
    rules = {
        "apiVersion": plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2",
        "kind": plugin["kind"] == "Plugin",
        "name": re.fullmatch(r"[\w-]+", plugin["metadata"]["name"]),
        "shortDescription": spec["shortDescription"] and "\n" not in spec["shortDescription"],
        "version": re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", spec["version"]),
        "platforms": spec["platforms"],
    }
    found = [name for name, kept in rules.items() if not kept]
    return [*found, *(mistake for each in spec["platforms"] for mistake in platform_mistakes(each))]


def platform_mistakes(platform: dict[str, Any]) -> list[str]:
    labels = platform["selector"]["matchLabels"]
    rules = {
        "uri": platform["uri"],
        "sha256": re.fullmatch(r"[a-f0-9]{64}", platform["sha256"]),
        "bin": platform["bin"],
        "files": platform["files"] and all(each["from"] and each["to"] for each in platform["files"]),
        "selector": labels and labels.keys() <= {"os", "arch"},
    }
    return [name for name, kept in rules.items() if not kept]


@pytest.fixture
def plugin() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(krew.manifest(ARCHIVES, version="1.2.3", url=URL))
    return loaded


def test_krew_would_take_it(plugin: dict[str, Any]) -> None:
    assert mistakes(plugin) == []


def test_the_rules_see_mistakes(plugin: dict[str, Any]) -> None:
    plugin["metadata"]["name"] = "kubectl numa"
    plugin["spec"]["version"] = "1.2.3"
    plugin["spec"]["platforms"][0]["sha256"] = "A" * 64
    plugin["spec"]["platforms"][1]["selector"]["matchLabels"]["glibc"] = "2.28"
    assert mistakes(plugin) == ["name", "version", "sha256", "selector"]


def test_every_platform_has_its_archive(plugin: dict[str, Any]) -> None:
    assert [(each["uri"], each["sha256"]) for each in plugin["spec"]["platforms"]] == [
        (f"{URL}/{archive.name}", archive.sha256) for archive in ARCHIVES.values()
    ]


def test_a_platform_without_an_archive_is_left_out() -> None:
    some = dict(list(ARCHIVES.items())[:1])
    loaded = yaml.safe_load(krew.manifest(some, version="1.2.3", url=f"{URL}/"))
    [platform] = loaded["spec"]["platforms"]
    assert platform["uri"] == f"{URL}/kubectl-numa_1.2.3_linux_amd64.tar.gz"
