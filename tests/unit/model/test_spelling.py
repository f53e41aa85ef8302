"""Which resource a misspelt one is."""

import pytest

from numalign.model.spelling import closest_resource
from tests.worlds.notation import GPU, table

KNOWN = ["cpu", "memory", "intel.com/qat", GPU]

MEANT = [
    # what it shows           the name           the known one
    ("a letter too many",     "nvidia.com/gpus", GPU),
    ("a name without domain", "gpu",             GPU),
    ("another case",          "NVIDIA.com/GPU",  GPU),
    ("of no domain",          "CPU",             "cpu"),
    ("like none",             "quantum",         None),
    ("endless",               "gpu" * 1000,      None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "nearest"), table(MEANT))
def test_misspelt_resource_has_a_nearest_name(name: str, nearest: str | None) -> None:
    assert closest_resource(name, KNOWN) == nearest
