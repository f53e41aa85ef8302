"""
DeviceClass: which extended resources are not served by device plugins.

A pod may request devices of DRA like an extended resource: by the name that the class sets, or by a name that
every class has (KEP-5004; k8s.io/api/resource/v1, ResourceDeviceClassPrefix). The device manager does not
handle them, so none of its rules apply.
"""

from collections.abc import Mapping
from types import MappingProxyType

from numalign.kube.decode.parts import Part
from numalign.kube.kinds import Collection
from numalign.model.errors import Mistake
from numalign.model.intent import LONGEST_NAME

GROUP = "resource.k8s.io"
KIND = "DeviceClass"
PREFIX = "deviceclass.resource.kubernetes.io/"
"""The prefix of a class name that forms its extended resource name."""

_KEPT = MappingProxyType({"metadata": {"name": True}, "spec": {"extendedResourceName": True}})
COLLECTIONS = tuple(
    Collection(KIND, f"{GROUP}/{version}", f"/apis/{GROUP}/{version}/deviceclasses", _KEPT)
    for version in ("v1", "v1beta2", "v1beta1")
)
"""The versions that can be read, the preferred one first."""


def served(raw: Mapping[str, object]) -> tuple[frozenset[str], tuple[Mistake, ...]]:
    """Return the extended resources that a DeviceClass serves, and all its mistakes."""
    device_class = Part(raw)
    names = []
    if name := device_class["metadata"]["name"].required_text():
        names.append(f"{PREFIX}{name}")
    stated = device_class["spec"]["extendedResourceName"]
    text = stated.text()
    if len(text) > LONGEST_NAME:
        stated.wrong(
            f"is not a resource name: at most {LONGEST_NAME} characters are allowed, not {len(text)}"
        )
    elif text:
        names.append(text)
    return frozenset(names), tuple(device_class.mistakes)
