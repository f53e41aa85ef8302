"""Which extended resources DRA serves."""

import pytest

from numalign.kube.decode.device_classes import COLLECTIONS, served


def device_class(name: object = "gpus", **spec: object) -> dict[str, object]:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": {"selectors": [], **spec}}


IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"


def test_a_class_serves_its_stated_and_its_implicit_name() -> None:
    assert served(device_class(extendedResourceName="nvidia.com/gpu")) == (
        frozenset({"nvidia.com/gpu", IMPLICIT}),
        (),
    )


@pytest.mark.parametrize("spec", [{}, {"extendedResourceName": None}, {"extendedResourceName": ""}], ids=repr)
def test_a_class_without_a_name_serves_its_implicit_one(spec: dict[str, object]) -> None:
    assert served(device_class(**spec)) == (frozenset({IMPLICIT}), ())


def test_a_name_without_end_is_a_mistake() -> None:
    names, [mistake] = served(device_class(extendedResourceName="x" * 1_000_000))
    assert (names, mistake.where) == (frozenset({IMPLICIT}), "spec.extendedResourceName")
    assert mistake.message == "is not a resource name: at most 317 characters are allowed, not 1000000"


def test_unread_fields_of_a_class_are_removed() -> None:
    cut = COLLECTIONS[0].described(device_class(extendedResourceName="a/b", config=[{"opaque": {}}]))
    assert cut == {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": "a/b"}}  # fmt: skip
