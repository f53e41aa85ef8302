"""Workloads that the how-to guides show have their annotations where numalign reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_numa import manifests
from kubectl_numa.manifests import Manifest
from numalign.kube.decode import templates
from numalign.kube.files import policy
from numalign.model import intent
from tests.unit.docs.blocks import ROOT
from tests.unit.docs.guides import EXAMPLES, Guide, guides

WORKLOADS = ROOT / "examples" / "workloads"
SHOWN = {
    ("", "Pod"),
    ("batch", "Job"),
    ("batch.volcano.sh", "Job"),
    ("jobset.x-k8s.io", "JobSet"),
    ("kubeflow.org", "PyTorchJob"),
    ("ray.io", "RayCluster"),
    ("trainer.kubeflow.org", "TrainJob"),
}


def workloads() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every whole object that makes pods, with the name of its page."""
    for guide in guides():
        for document in guide.examples():
            kind = isinstance(document, dict) and "kind" in document and templates.group_kind(document)
            if kind in templates.TEMPLATES:
                yield guide.name, document


def read(document: object, folder: Path) -> list[Manifest]:
    file = folder / "example.yaml"
    file.write_text(yaml.safe_dump(document))
    return manifests.read(str(file))


def test_every_kind_that_a_guide_is_about_is_shown() -> None:
    assert {templates.group_kind(document) for _, document in workloads()} == SHOWN


@pytest.mark.parametrize(
    ("page", "document"), [pytest.param(*each, id=f"{each[0]}-{each[1]['kind']}") for each in workloads()]
)
def test_annotations_are_in_a_template_that_is_read(
    page: str, document: dict[str, Any], tmp_path: Path
) -> None:
    read_back = read(document, tmp_path)
    told = [each.mistakes or (not each.place.guessed and each.warnings) for each in read_back]
    assert not any(told), page
    policies = [
        intent.read(each.pod.annotations).policy for each in read_back if each.pod and each.pod.annotations
    ]
    assert set(policies) == {intent.Policy.SINGLE_NUMA_NODE}


def test_annotations_on_the_workload_itself_would_be_seen(tmp_path: Path) -> None:
    document = Guide.read("jobset").example("Steps")
    [*_, workers] = document["spec"]["replicatedJobs"]
    document["metadata"]["annotations"] = workers["template"]["spec"]["template"].pop("metadata")[
        "annotations"
    ]
    read_back = read(document, tmp_path)
    assert any(each.warnings for each in read_back)
    assert not any(each.pod and each.pod.annotations for each in read_back)


@pytest.mark.parametrize("file", sorted(WORKLOADS.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_file_of_an_example_is_what_its_page_shows(file: Path) -> None:
    shown = [fence.text for fence in Guide.read(file.stem).fences() if fence.language == EXAMPLES]
    assert file.read_text() in shown


def test_policies_that_are_shown_are_read() -> None:
    shown = {
        guide.name: document["policy"]
        for guide in guides()
        for document in guide.examples()
        if isinstance(document, dict) and "policy" in document
    }
    assert shown.keys() == {"cluster-autoscaler", "cluster-policy", "karpenter"}
    for document in shown.values():
        policy.parse(yaml.safe_dump(document).encode())
