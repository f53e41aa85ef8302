"""The workflows of GitHub Actions are correct, pinned, and write no more than they need."""

import asyncio
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.unit.tools.release.conftest import run
from tests.worlds.opt_in import RELEASE
from tools.clusters import builds

ROOT = Path(__file__).parents[4]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WRITING = {
    ("docs", "publish"): {"pages", "id-token"},
    ("release", "draft"): {"contents", "id-token", "attestations"},
    ("weekly", "renew"): {"contents", "pull-requests"},
}
"""What may be written, by workflow and job: the site, the draft of a release with attestations, a lock."""

# A digest of a file, an image, a commit, or a Go module.
PIN = r"sha256[^0-9a-f]{1,4}[0-9a-f]{64}\>|@[0-9a-f]{40}\>|\<h1:[A-Za-z0-9+/]{43}="
RENEWED_BY_DEPENDABOT = {
    ".github/workflows/*.yml": ("github-actions", "/"),
    "deploy/Dockerfile": ("docker", "/deploy"),
    "tools/clusters/*/go.sum": ("gomod", "/tools/clusters/*"),
}
# The last ones belong to one version of Kubernetes, and are renewed with it.
RENEWED_OTHERWISE = ("requirements/*.txt", "tools/clusters/*/go.1.*.sum")


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflow_is_limited(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        writing = {right for right, access in job.get("permissions", {}).items() if access == "write"}
        assert writing == WRITING.get((file.stem, name), set())
        assert job["timeout-minutes"] <= 180
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_action_has_one_pinned_version_in_all_workflows() -> None:
    text = "\n".join(file.read_text() for file in WORKFLOWS)
    pins = {*re.findall(r"^ +(?:- )?uses: (.*)", text, re.MULTILINE)}
    pinned = r"(actions/[a-z-]+)@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [action for action in pins if not re.fullmatch(pinned, action)] == []
    assert len({action.partition("@")[0] for action in pins}) == len(pins) > 3


@pytest.mark.release
@pytest.mark.timeout(300)
def test_actionlint_accepts_the_workflows(tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        program = asyncio.run(builds.actionlint())
    assert run(program, *WORKFLOWS) == ""
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on", "runs-where"))
    with pytest.raises(AssertionError, match="runs-where"):
        run(program, broken)


def test_every_pin_is_renewed() -> None:
    """But those that tests and documents quote."""
    options = ("--files-with-matches", "--extended-regexp", PIN)
    files = run("git", "grep", *options, "--", ".", ":!tests", ":!docs", folder=ROOT).splitlines()
    patterns = (*RENEWED_BY_DEPENDABOT, *RENEWED_OTHERWISE)
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(file, pattern) for file in files)] == []

    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    folders = {
        (each["package-ecosystem"], folder)
        for each in updates
        for folder in each.get("directories", [each.get("directory")])
    }
    assert folders >= {*RENEWED_BY_DEPENDABOT.values()}


def test_chart_manifests_and_dockerfile_name_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    manifests = [*(ROOT / "deploy" / "manifests").rglob("*.yaml"), ROOT / "deploy" / "Dockerfile"]
    text = "".join(file.read_text() for file in manifests)
    tags = re.findall(r"\bnumalign-(?:webhook|agent)(?::|\n *newTag: \W?)(\d[\w.-]*)", text)
    assert len(tags) > 4
    assert {chart["version"], chart["appVersion"], *tags} == {version}
