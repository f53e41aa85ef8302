"""Every pin has somebody who renews it."""

from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tools.release.commands import run

ROOT = Path(__file__).parents[4]
DEPENDABOT = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
WEEKLY = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text())["jobs"]["renew"]

# A digest of a file, an image, a commit, or a Go module.
PIN = r"sha256[^0-9a-f]{1,4}[0-9a-f]{64}\>|@[0-9a-f]{40}\>|\<h1:[A-Za-z0-9+/]{43}="
RENEWED_BY_DEPENDABOT = {
    ".github/workflows/*.yml": ("github-actions", "/"),
    "deploy/Dockerfile": ("docker", "/deploy"),
    "tools/clusters/*/go.sum": ("gomod", "/tools/clusters/*"),
}
RENEWED_BY_MAKE_LOCK = ("requirements/*.txt", "deploy/image-lock.json")
RENEWED_WITH_A_KUBERNETES_VERSION = "tools/clusters/*/go.1.*.sum"
"""What recordings and tests of one version use; decision 0005 says which versions, and why."""


def pinned() -> list[str]:
    """Return the tracked files that contain pins, but for tests and documents, which quote some."""
    options = ("--files-with-matches", "--extended-regexp", PIN)
    return run("git", "grep", *options, "--", ".", ":!tests", ":!docs", folder=ROOT).decode().splitlines()


def test_every_file_with_pins_is_in_a_table() -> None:
    known = (*RENEWED_BY_DEPENDABOT, *RENEWED_BY_MAKE_LOCK, RENEWED_WITH_A_KUBERNETES_VERSION)
    files = pinned()
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in known)] == []
    assert [pattern for pattern in known if not any(fnmatch(file, pattern) for file in files)] == []


@pytest.mark.parametrize("entry", RENEWED_BY_DEPENDABOT.values(), ids=lambda entry: entry[0])
def test_dependabot_looks_there(entry: tuple[str, str]) -> None:
    ecosystem, folder = entry
    assert [
        each
        for each in DEPENDABOT
        if each["package-ecosystem"] == ecosystem
        and folder in each.get("directories", [each.get("directory")])
    ]


def test_the_weekly_job_proposes_a_new_lock() -> None:
    steps = [step.get("run", "") for step in WEEKLY["steps"]]
    assert "make lock" in steps
    assert "git commit --all" in steps[-1]
