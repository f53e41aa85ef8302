"""Each kustomization becomes one file, in which nothing comes before what it stands on."""

from pathlib import Path

import pytest
import yaml

from tools.release import manifests
from tools.release.commit import Commit

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "deploy" / "manifests"
KUSTOMIZATIONS = sorted(FOLDER.rglob("kustomization.yaml"))
COMMIT = Commit("0" * 40, ROOT, "0.1.0", 0)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {path.name: path for path in manifests.make(COMMIT, tmp_path_factory.mktemp("bundles"))}


def objects(path: Path) -> list[dict[str, object]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def identity(each: dict[str, object]) -> str:
    return yaml.safe_dump(each)


def test_there_is_one_for_every_kustomization(bundles: dict[str, Path]) -> None:
    assert len(bundles) == len(KUSTOMIZATIONS) > 5
    assert {"numalign.yaml", "numalign-agent.yaml", "numalign-scorer-guard.yaml"} <= bundles.keys()


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS, ids=str)
def test_it_holds_what_the_kustomization_lists(kustomization: Path, bundles: dict[str, Path]) -> None:
    listed = yaml.safe_load(kustomization.read_text())
    expected = [each for name in listed["resources"] for each in objects(kustomization.parent / name)]
    bundle = bundles["-".join(["numalign", *kustomization.parent.relative_to(FOLDER).parts]) + ".yaml"]
    assert sorted(map(identity, objects(bundle))) == sorted(map(identity, expected))


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS, ids=str)
def test_a_bundle_needs_no_rewriting_of_images(kustomization: Path) -> None:
    """Bundles leave out `images:`, so the manifests must name the same ones already."""
    images = yaml.safe_load(kustomization.read_text()).get("images", [])
    text = "".join(path.read_text() for path in kustomization.parent.glob("*.yaml"))
    assert [each for each in images if f'image: "{each["newName"]}:{each["newTag"]}"' not in text] == []


def test_namespaces_come_first(bundles: dict[str, Path]) -> None:
    for bundle in bundles.values():
        kinds = [each["kind"] for each in objects(bundle)]
        assert "Namespace" not in kinds[kinds.count("Namespace") :], bundle
