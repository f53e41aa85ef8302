"""The README's example is what the program prints, and the decisions it leads to are all there."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubectl_numa.cli import program

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
DATA = ROOT / "examples" / "data" / "cluster.yaml"


def blocks() -> list[str]:
    """What stands between fences, in order."""
    return re.findall(r"^```\w*\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def explained(manifest: str) -> str:
    told = CliRunner().invoke(program, ["explain", "-f", "-", "--snapshot", str(DATA)], input=manifest)
    assert told.exit_code == 0
    return told.output


def paragraphs(block: str) -> list[str]:
    """The parts of an output that the README shows; `...` stands for those it leaves out."""
    shown = re.sub(r"^\$ .*\n", "", block).removesuffix("...\n").rstrip("\n")
    return shown.split("\n\n")


def test_the_example_is_what_is_printed() -> None:
    manifest = next(block for block in blocks() if "name: trainer" in block)
    refused, admitted = [block for block in blocks() if "requests single-numa-node" in block]
    smaller = manifest.replace('nvidia.com/gpu: "8"', 'nvidia.com/gpu: "2"')

    for block, pod in ((refused, manifest), (admitted, smaller)):
        printed = explained(pod)
        for paragraph in paragraphs(block):
            assert paragraph in printed


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\(([0-9]{4}-[a-z0-9-]+\.md)\)", (folder / "README.md").read_text()))

    assert listed == {path.name for path in folder.glob("[0-9]*.md")}
