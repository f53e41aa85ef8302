"""The release workflow signs with the steps of its job, and users verify with the commands of the page."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.unit.tools.release.conftest import run
from tests.worlds.opt_in import RELEASE
from tests.worlds.programs import needs
from tools.release import files
from tools.release.__main__ import ROOT
from tools.release.files import Order

PAGE = ROOT / "docs" / "how-to" / "verify-a-release.md"
RUN_HERE = "; tests/unit/tools/release/test_signing.py runs it with some -->"
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
[SIGNING] = [job for job in JOBS.values() if "secrets." in str(job)]
KEY = "release@example.com"


def step(name: str, dist: Path, **environ: str) -> None:
    [script] = [each["run"] for each in SIGNING["steps"] if each.get("name") == name]
    run("bash", "-euo", "pipefail", "-c", script, folder=dist, environ=os.environ | environ)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A chart-less release as the build job uploads it: files, their checksums, and the notes."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "numalign.yaml").write_text("kind: List\n")
    run("sh", "-c", "sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS . && touch NOTES", folder=folder)
    return folder


def test_job_with_the_key_runs_no_code_of_the_build() -> None:
    uses = [each["uses"].partition("@")[0] for each in SIGNING["steps"] if "uses" in each]
    assert uses == ["actions/download-artifact", "actions/attest-build-provenance"]
    words = {word for each in SIGNING["steps"] for word in each.get("run", "").split()}
    assert "gpg" in words
    assert not words & {"make", "pip", "python", "python3", "uv", "npm", "go", "curl", "bash", "sh", "source"}
    assert not JOBS["build"].keys() & {"permissions", "environment"}


@pytest.mark.parametrize("name", ["numalign.yaml", "more.yaml"])
def test_changed_or_additional_file_is_not_signed(dist: Path, name: str) -> None:
    step("Check the files", dist)
    (dist.parent / "NOTES").rename(dist / "NOTES")
    (dist / name).write_text("kind: Other\n")
    with pytest.raises(AssertionError, match=r"FAILED|OK"):
        step("Check the files", dist)


@pytest.mark.release
@pytest.mark.timeout(600)
@needs("gpg")
def test_commands_of_the_page_verify_a_signed_release(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RELEASE.or_skipped():
        helm = files.helm()
        files.make_chart(Order(ROOT, "0.1.0", dist / "none.whl", dist))
    run("sh", "-c", "rm NOTES && sha256sum *.tgz >> SHA256SUMS", folder=dist)
    blocks = re.findall(rf"{re.escape(RUN_HERE)}\n *```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = "\n".join(map(dedent, blocks))
    assert commands.count("gpg") > 2
    with keyring(tmp_path / "keys") as keys, keyring(tmp_path / "user") as user:
        monkeypatch.setenv("GNUPGHOME", str(keys))
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", KEY, "ed25519", "sign", "1d")
        step("Sign", dist, RELEASE_KEY=KEY)
        environ = {"GNUPGHOME": str(user), "PATH": f"{helm.parent}:/usr/bin:/bin"}
        verify = ("bash", "-euo", "pipefail", "-c", commands)
        run(*verify, folder=dist, environ=environ)
        (dist / "numalign.yaml").write_text("kind: Other\n")
        with pytest.raises(AssertionError, match=r"numalign\.yaml: FAILED"):
            run(*verify, folder=dist, environ=environ)


@contextmanager
def keyring(home: Path) -> Iterator[Path]:
    """An empty keyring during the block; its agent ends with it."""
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)  # noqa: S603, S607  gpg
