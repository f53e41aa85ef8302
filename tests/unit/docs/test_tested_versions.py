"""A how-to names the version of the other program that the tests run."""

from pathlib import Path

import pytest

from tools.clusters import ecosystem

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"

PAGES = {
    "gates.md": ("descheduler", ecosystem.DESCHEDULER),
    "jobset.md": ("JobSet", ecosystem.JOBSET),
    "karpenter.md": ("Karpenter", ecosystem.KARPENTER),
    "kubeflow.md": ("Kubeflow Trainer", ecosystem.TRAINER),
    "kueue.md": ("Kueue", ecosystem.KUEUE),
    "ray.md": ("KubeRay", ecosystem.KUBERAY),
}


@pytest.mark.parametrize("page", PAGES)
def test_version_is_that_of_the_clusters(page: str) -> None:
    name, operator = PAGES[page]
    text = (HOW_TO / page).read_text(encoding="utf-8")
    assert f"Tested with {name} {operator.release}" in text


def test_every_program_has_a_page() -> None:
    tested = [operator for _, operator in PAGES.values()]
    assert [each.shop.name for each in ecosystem.ALL if each not in tested] == []
