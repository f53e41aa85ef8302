"""The version stands in pyproject.toml, and all that names one names that."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[4]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CHART = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
IMAGE = re.compile(r"\bnumalign-(?:webhook|agent):(\d[\w.-]*)")
KUSTOMIZATIONS = sorted((ROOT / "deploy" / "manifests").rglob("kustomization.yaml"))


def test_a_version_is_semantic() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", VERSION)


def test_chart_and_programs_are_released_together() -> None:
    assert (CHART["version"], CHART["appVersion"]) == (VERSION, VERSION)


def test_the_manifests_run_images_of_the_version() -> None:
    manifests = (ROOT / "deploy" / "manifests").rglob("*.yaml")
    tags = [tag for file in manifests for tag in IMAGE.findall(file.read_text())]
    assert len(tags) >= 4
    assert set(tags) == {VERSION}


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=str)
def test_kustomizations_do(file: Path) -> None:
    ours = [each for each in yaml.safe_load(file.read_text()).get("images", []) if "numalign" in each["name"]]
    assert {each["newTag"] for each in ours} <= {VERSION}


def test_the_head_of_the_dockerfile_tags_with_it() -> None:
    assert set(IMAGE.findall((ROOT / "deploy" / "Dockerfile").read_text())) == {VERSION}
