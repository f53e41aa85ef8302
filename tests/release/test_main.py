"""A release of the commit that is checked out, and the page by which a stranger verifies it."""

import asyncio
import re
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from harness.helm import build
from release.__main__ import INCOMPLETE, program
from release.commands import FailedError, run
from tests.asked_for import RELEASE
from tests.programs import needs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "verify-a-release.md"
RUN_HERE = "; tests/release/test_main.py runs it with some -->"


def released(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    done = released("--out", str(tmp_path))
    assert done.exit_code == 1
    assert f"Error: {tmp_path} is not empty and contains no release: choose another folder" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_part_that_is_none_is_refused_with_the_list() -> None:
    done = released("--only", "windows")
    assert done.exit_code == 2
    assert "'python', 'plugin', 'krew', 'manifests', 'chart', 'images', 'sbom'" in done.output


@pytest.mark.release
@pytest.mark.timeout(600)
def test_what_is_skipped_is_said_and_can_be_an_error(tmp_path: Path) -> None:
    arguments = ("--out", str(tmp_path / "dist"), "--only", "manifests", "--only", "krew")
    done = released(*arguments)
    assert done.exit_code == 0
    assert "SKIPPED: krew: set RELEASE_URL to" in done.stderr
    assert "SKIPPED: signatures: set RELEASE_KEY to" in done.stderr
    assert re.search(r"^numalign\.yaml +[\d.]+ KiB  sha256:[0-9a-f]{64}$", done.stdout, re.MULTILINE)

    # A folder that holds a release is emptied for the next one.
    assert released(*arguments, "--complete").exit_code == INCOMPLETE


@pytest.mark.release
@pytest.mark.timeout(600)
@needs("gpg")
def test_a_stranger_verifies_it_as_the_page_says(key: str, stranger: Path, tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        [helm] = asyncio.run(build.find())
    dist = tmp_path / "dist"
    parts = [f"--only={part}" for part in ("python", "manifests", "chart")]
    done = released("--out", str(dist), "--key", key, "--complete", *parts)
    assert done.exit_code == 0, done.output

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
