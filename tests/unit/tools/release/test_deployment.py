"""The packaged chart has every template, and each kustomization becomes one file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.tools.release.installed import run
from tests.worlds.asked_for import RELEASE
from tools.release import deployment
from tools.release.__main__ import ROOT
from tools.release.order import Order

CHART, FOLDER = ROOT / "deploy" / "chart", ROOT / "deploy" / "manifests"
KUSTOMIZATIONS = sorted(FOLDER.rglob("kustomization.yaml"))


def order(into: Path) -> Order:
    return Order(ROOT, "0.1.0", into / "none.whl", into)


@pytest.mark.release
@pytest.mark.timeout(600)
def test_chart_has_every_template(tmp_path: Path) -> None:
    with RELEASE.or_skipped():
        deployment.make_chart(order(tmp_path))
    packed = run("tar", "-tzf", tmp_path / "numalign-0.1.0.tgz").splitlines()
    files = [file for file in CHART.rglob("templates/**/*") if file.is_file()]
    assert {f"numalign/{file.relative_to(CHART)}" for file in files} <= {*packed}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manifests")
    deployment.make_manifests(order(folder))
    return folder


def objects(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS, ids=str)
def test_file_has_the_objects_of_its_kustomization(kustomization: Path, manifests: Path) -> None:
    listed = yaml.safe_load(kustomization.read_text())
    expected = [each for name in listed["resources"] for each in objects(kustomization.parent / name)]
    name = "-".join(["numalign", *kustomization.parent.relative_to(FOLDER).parts])
    written = objects(manifests / f"{name}.yaml")
    assert sorted(map(yaml.safe_dump, written)) == sorted(map(yaml.safe_dump, expected))
    kinds = [each["kind"] for each in written]
    assert "Namespace" not in kinds[kinds.count("Namespace") :]
    # The file has no `images:` of kustomize.
    images = [f'image: "{each["newName"]}:{each["newTag"]}"' for each in listed.get("images", [])]
    text = "".join(path.read_text() for path in kustomization.parent.glob("*.yaml"))
    assert [image for image in images if image not in text] == []
