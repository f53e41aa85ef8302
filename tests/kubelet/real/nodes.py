"""Drawn machines as nodes of real kubelets."""

from collections.abc import Mapping

from tests.kubelet.real.conftest import VERSIONS
from tests.kubelet.real.playing import Machine
from tools.clusters.api_requests import Json
from tools.clusters.kubelets.kubelets import RealNode
from tools.generate.recordings import scenarios

# Of the options that are not for everybody yet.
OPTIONS = {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
# To resize a pod in place takes cgroups, and from v1.36 on it begins as soon as a pod states resources.
NO_RESIZES = {"InPlacePodLevelResourcesVerticalScaling": False}
GATES: Mapping[str, Mapping[str, bool]] = {
    version: OPTIONS | (NO_RESIZES if "bubble" in scenarios.kinds(version) else {}) for version in VERSIONS
}


def real_node(machine: Machine, version: str) -> RealNode:
    """The node of a drawn machine."""
    drawn = machine.drawn(version)
    config = drawn["kubeletConfig"]
    return RealNode(
        name=machine.name,
        machine=drawn["machine"] | {"devices": _healthy(drawn["machine"]["devices"])},
        configuration={**config, "featureGates": {**GATES[version], **config.get("featureGates", {})}},
        labels=drawn["labels"],
    )


def _healthy(devices: Json) -> Json:
    """The same devices, all of them well.

    A kubelet counts ill devices where it says which zones would do at best, and tells nobody where those sit
    that have been ill since before anybody asked.
    """
    return {resource: [{**one, "healthy": True} for one in listed] for resource, listed in devices.items()}
