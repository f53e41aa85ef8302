"""A release is made of a commit, into a folder of its own, with the whole chart and all manifests."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.unit.tools.release.conftest import run
from tests.worlds.opt_in import RELEASE
from tools.release import __main__ as release
from tools.release import files
from tools.release.__main__ import ROOT
from tools.release.files import Order

CHART, FOLDER = ROOT / "deploy" / "chart", ROOT / "deploy" / "manifests"


@pytest.mark.release
@pytest.mark.timeout(600)
def test_chart_has_every_template(tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        files.make_chart(Order(ROOT, "0.1.0", tmp_path / "none.whl", tmp_path))
    packed = run("tar", "-tzf", tmp_path / "numalign-0.1.0.tgz").splitlines()
    templates = [file for file in CHART.rglob("templates/**/*") if file.is_file()]
    assert {f"numalign/{file.relative_to(CHART)}" for file in templates} <= {*packed}


def objects(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def test_file_has_the_objects_of_its_kustomization(tmp_path: Path) -> None:
    files.make_manifests(Order(ROOT, "0.1.0", tmp_path / "none.whl", tmp_path))
    for kustomization in FOLDER.rglob("kustomization.yaml"):
        listed = yaml.safe_load(kustomization.read_text())
        expected = [each for name in listed["resources"] for each in objects(kustomization.parent / name)]
        name = "-".join(["numalign", *kustomization.parent.relative_to(FOLDER).parts])
        written = objects(tmp_path / f"{name}.yaml")
        assert sorted(map(yaml.safe_dump, written)) == sorted(map(yaml.safe_dump, expected))
        kinds = [each["kind"] for each in written]
        assert "Namespace" not in kinds[kinds.count("Namespace") :]
        # The file has no `images:` of kustomize.
        images = [f'image: "{each["newName"]}:{each["newTag"]}"' for each in listed.get("images", [])]
        text = "".join(path.read_text() for path in kustomization.parent.glob("*.yaml"))
        assert [image for image in images if image not in text] == []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the committed tree, from which the release is made."""
    folder = tmp_path / "clone"
    run("git", "clone", "--quiet", "--shared", ROOT, folder)
    monkeypatch.setattr(release, "ROOT", folder)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    return folder


def released(out: Path) -> Result:
    return CliRunner().invoke(release.program, ["--out", str(out), "--only", "manifests"])


@pytest.mark.release
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("repository")
def test_release_replaces_the_previous_one(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    assert released(out).exit_code == 0
    (out / "old").touch()
    assert re.search(r"^[0-9a-f]{64}  numalign\.yaml$", released(out).stdout, re.MULTILINE)
    assert not (out / "old").exists()
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=out)
    assert len(checked.splitlines()) == len([*out.iterdir()]) - 1


def test_uncommitted_changes_and_other_folders_are_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    assert f"Error: {tmp_path} is not empty and contains no release: choose" in released(tmp_path).output
    assert (tmp_path / "letters").exists()
    (repository / "new").touch()
    done = released(tmp_path / "dist")
    assert done.exit_code == 1
    assert "Error: commit these files or remove them, then make the release:\n?? new" in done.output
