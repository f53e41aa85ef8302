"""The workflows of GitHub Actions: correct, pinned, and with no more rights than they use."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.worlds.asked_for import RELEASE
from tools.clusters import actionlint
from tools.release.commands import FailedError, run

ROOT = Path(__file__).parents[4]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = re.compile(r"^ +(?:- )?uses: (\S+)(.*)", re.MULTILINE)
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")
WRITING = {
    ("docs", "publish"): {"pages", "id-token"},
    ("release", "draft"): {"contents", "id-token", "attestations"},
    ("weekly", "renew"): {"contents", "pull-requests"},
}
"""What may be written, by workflow and job: the site, the draft of a release with attestations, a lock."""

each_workflow = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)


def loaded(file: Path) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load(file.read_text())
    return workflow


def test_there_is_one_for_tests_docs_releases_and_renewals() -> None:
    assert [file.stem for file in WORKFLOWS] == ["docs", "release", "test", "weekly"]


@each_workflow
def test_every_action_is_pinned_by_digest_and_says_its_version(file: Path) -> None:
    actions = ACTION.findall(file.read_text())
    assert actions
    assert [
        action
        for action, comment in actions
        if not PINNED.fullmatch(action) or not re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
    ] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    pins = {action for file in WORKFLOWS for action, _ in ACTION.findall(file.read_text())}
    assert len({action.partition("@")[0] for action in pins}) == len(pins)


@each_workflow
def test_jobs_read_unless_the_table_says_otherwise(file: Path) -> None:
    workflow = loaded(file)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        writing = {right for right, access in job.get("permissions", {}).items() if access == "write"}
        assert writing == WRITING.get((file.stem, name), set())


@each_workflow
def test_every_job_ends_and_no_checkout_leaves_a_token(file: Path) -> None:
    for job in loaded(file)["jobs"].values():
        assert job["timeout-minutes"] <= 180
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@each_workflow
def test_every_target_of_make_is_there(file: Path) -> None:
    targets = re.findall(r"make ([a-z-]+)", file.read_text())
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(targets) <= rules


@pytest.mark.release
@pytest.mark.timeout(300)
def test_actionlint_has_no_complaint_and_would_have_one(tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        program = asyncio.run(actionlint.find())
    assert run(program, *WORKFLOWS) == b""

    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on", "runs-where"))
    with pytest.raises(FailedError, match="runs-where"):
        run(program, broken)
