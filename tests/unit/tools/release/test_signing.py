"""The release workflow signs with the steps of its job, run here, and strangers verify as the page says."""

import asyncio
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.worlds.asked_for import RELEASE
from tests.worlds.programs import needs
from tools.clusters.helm import build
from tools.release.__main__ import SUMS, program
from tools.release.artefacts import artefact, checksums
from tools.release.commands import FailedError, run

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "how-to" / "verify-a-release.md"
RUN_HERE = "; tests/unit/tools/release/test_signing.py runs it with some -->"
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
KEYED = [job for job in JOBS.values() if "secrets." in str(job)]
BRINGS_FILES = "actions/download-artifact"
ATTESTS = "actions/attest-build-provenance"
INSTALLS_OR_RUNS = {"make", "pip", "python", "python3", "uv", "npm", "go", "curl", "bash", "sh", "source"}


def step(name: str, dist: Path, **environ: str) -> None:
    [script] = [each["run"] for job in KEYED for each in job["steps"] if each.get("name") == name]
    run("bash", "-euo", "pipefail", "-c", script, folder=dist, environ=environ)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """What the build hands over: files, their checksums, and the notes."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "numalign.yaml").write_text("kind: List\n")
    (folder / SUMS).write_text(checksums([artefact(folder / "numalign.yaml")]))
    (folder / "NOTES").touch()
    return folder


def test_the_job_with_the_key_only_signs_files() -> None:
    [job] = KEYED
    uses = [each["uses"].partition("@")[0] for each in job["steps"] if "uses" in each]
    assert uses == [BRINGS_FILES, ATTESTS]

    words = {word for each in job["steps"] for word in each.get("run", "").split()}
    assert "gpg" in words
    assert not words & INSTALLS_OR_RUNS


def test_the_build_has_no_key_and_no_rights() -> None:
    build_job = JOBS["build"]
    assert not build_job.keys() & {"permissions", "environment"}


def test_files_as_built_are_signed(dist: Path) -> None:
    step("Check the files", dist)
    assert (dist.parent / "NOTES").exists()


def test_a_file_that_changed_is_not_signed(dist: Path) -> None:
    (dist / "numalign.yaml").write_text("kind: Other\n")
    with pytest.raises(FailedError, match=r"numalign\.yaml: FAILED"):
        step("Check the files", dist)


def test_a_file_without_checksum_is_not_signed(dist: Path) -> None:
    (dist / "more.yaml").touch()
    with pytest.raises(FailedError):
        step("Check the files", dist)


@pytest.mark.release
@pytest.mark.timeout(600)
@needs("gpg")
def test_a_stranger_verifies_it_as_the_page_says(key: str, stranger: Path, tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        [helm] = asyncio.run(build.find())
    dist = tmp_path / "dist"
    parts = [f"--only={part}" for part in ("python", "manifests", "chart")]
    done = CliRunner().invoke(program, ["--out", str(dist), "--complete", *parts])
    assert done.exit_code == 0, done.output
    step("Sign", dist, RELEASE_KEY=key)

    environ = {"GNUPGHOME": str(stranger), "PATH": f"{helm.parent}:/usr/bin:/bin"}
    commands = "\n".join(blocks())
    assert commands.count("gpg") > 2
    run("bash", "-euo", "pipefail", "-c", commands, folder=dist, environ=environ)

    (dist / "numalign.yaml").write_text("kind: Other\n")
    with pytest.raises(FailedError, match=r"numalign\.yaml: FAILED"):
        run("bash", "-euo", "pipefail", "-c", commands, folder=dist, environ=environ)


def blocks() -> list[str]:
    """The commands of the page that need nothing but the files of a release."""
    found = re.findall(rf"{re.escape(RUN_HERE)}\n *```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [dedent(block) for block in found]
