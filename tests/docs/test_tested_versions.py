"""A how-to names the version of the other program that the tests run."""

from pathlib import Path

import pytest

from harness.jobsets import build as jobsets
from harness.karpenter import build as karpenter
from harness.kuberay import build as kuberay
from harness.kueue import build as kueue
from harness.operators import Operator

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize(
    ("page", "name", "operator"),
    [
        ("jobset.md", "JobSet", jobsets.OPERATOR),
        ("karpenter.md", "Karpenter", karpenter.OPERATOR),
        ("kueue.md", "Kueue", kueue.OPERATOR),
        ("ray.md", "KubeRay", kuberay.OPERATOR),
    ],
)
def test_the_version_is_that_of_the_harness(page: str, name: str, operator: Operator) -> None:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    assert f"Tested with {name} {operator.release}" in text
