"""Workloads that pages show carry their annotations where numalign reads them."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubectl_numa import manifests
from kubectl_numa.cli import program
from kubectl_numa.manifests import Manifest
from numalign.kube.decode import templates
from numalign.kube.files import policy
from numalign.model import intent
from tests.unit.docs import blocks
from tests.unit.docs.blocks import ROOT
from tests.unit.docs.guides import EXAMPLES, Guide, guides
from tools.clusters import ecosystem

WORKLOADS = ROOT / "examples" / "workloads"
TESTED = {
    "gates": ("descheduler", ecosystem.DESCHEDULER),
    "jobset": ("JobSet", ecosystem.JOBSET),
    "karpenter": ("Karpenter", ecosystem.KARPENTER),
    "kubeflow": ("Kubeflow Trainer", ecosystem.TRAINER),
    "kueue": ("Kueue", ecosystem.KUEUE),
    "ray": ("KubeRay", ecosystem.KUBERAY),
}
# Every whole object that makes pods, by its page and kind.
SHOWN = {
    f"{guide.name}-{document['kind']}": document
    for guide in guides()
    for document in guide.examples()
    if isinstance(document, dict)
    and "kind" in document
    and templates.group_kind(document) in templates.TEMPLATES
}


def read(document: object, folder: Path) -> list[Manifest]:
    file = folder / "example.yaml"
    file.write_text(yaml.safe_dump(document))
    return manifests.read(str(file))


@pytest.mark.parametrize("shown", SHOWN)
def test_annotations_are_in_a_template_that_is_read(shown: str, tmp_path: Path) -> None:
    read_back = read(SHOWN[shown], tmp_path)
    assert not any(each.mistakes or (not each.place.guessed and each.warnings) for each in read_back)
    annotated = [each.pod for each in read_back if each.pod and each.pod.annotations]
    policies = {intent.read(pod.annotations).policy for pod in annotated}
    assert policies == {intent.Policy.SINGLE_NUMA_NODE}


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


def test_tested_versions_are_those_of_the_clusters() -> None:
    for page, (name, operator) in TESTED.items():
        assert f"Tested with {name} {operator.release}" in Guide.read(page).text
    assert {each.shop.name for each in ecosystem.ALL} == {each.shop.name for _, each in TESTED.values()}


def test_readme_shows_what_is_printed_about_its_pod() -> None:
    shown = list(blocks.fences((ROOT / "README.md").read_text()))
    [pod] = [each.text for each in shown if each.language == EXAMPLES]
    refused, admitted = [each.text for each in shown if "requests single-numa-node" in each.text]
    explain = ["explain", "-f", "-", "--snapshot", str(ROOT / "examples" / "data" / "cluster.yaml")]
    for block, gpus in ((refused, "8"), (admitted, "2")):
        done = CliRunner().invoke(program, explain, input=pod.replace('gpu: "8"', f'gpu: "{gpus}"'))
        assert done.exit_code == 0
        assert blocks.missing(blocks.paragraphs(block), done.output) == []
