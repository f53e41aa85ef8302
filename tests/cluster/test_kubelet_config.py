"""A kubelet's configuration: what is written counts, and nothing else."""

from typing import Any

import pytest

from numalign.cluster.kubelet_config import KubeletConfiguration, kubelet_configuration
from numalign.rules.errors import BadTopology
from numalign.rules.intent import Policy, Scope
from numalign.rules.topology import CpuManager, MemoryManager


def raw(**fields: object) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "metadata": {"name": "n"},
        **fields,
    }


def test_everything_that_matters_is_read() -> None:
    written = raw(
        topologyManagerPolicy="single-numa-node",
        topologyManagerScope="pod",
        cpuManagerPolicy="static",
        memoryManagerPolicy="Static",
        topologyManagerPolicyOptions={"max-allowable-numa-nodes": "12", "prefer-closest-numa-nodes": "true"},
        cpuManagerPolicyOptions={"full-pcpus-only": "true"},
    )

    assert kubelet_configuration(written) == KubeletConfiguration(
        "n", Policy.SINGLE_NUMA_NODE, Scope.POD, CpuManager.STATIC, MemoryManager.STATIC, 12
    )


@pytest.mark.parametrize(
    "fields",
    [{}, {"topologyManagerPolicy": "", "topologyManagerScope": None, "topologyManagerPolicyOptions": None}],
    ids=["absent", "empty"],
)
def test_what_is_not_written_stays_open(fields: dict[str, Any]) -> None:
    assert kubelet_configuration(raw(**fields)) == KubeletConfiguration("n")


def test_every_mistake_is_told_with_its_path() -> None:
    written = {
        "topologyManagerPolicy": "strict",
        "topologyManagerScope": 1,
        "cpuManagerPolicy": "Static",
        "memoryManagerPolicy": "static",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "7"},
    }

    with pytest.raises(BadTopology) as raised:
        kubelet_configuration(written)
    assert [str(mistake) for mistake in raised.value.mistakes] == [
        "metadata.name: is missing",
        (
            'topologyManagerPolicy: "strict" is none of the known words: '
            "none, best-effort, restricted, single-numa-node"
        ),
        "topologyManagerScope: must be a text, not a number",
        'cpuManagerPolicy: "Static" is none of the known words: none, static',
        'memoryManagerPolicy: "static" is none of the known words: None, Static',
        "topologyManagerPolicyOptions.max-allowable-numa-nodes: 7 is too small: the least is 8",
    ]
