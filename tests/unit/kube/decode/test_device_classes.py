"""Which extended resources DRA serves."""

import pytest

from numalign.kube.decode.device_classes import COLLECTIONS, served


def device_class(name: object = "gpus", **spec: object) -> dict[str, object]:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": {"selectors": [], **spec}}


IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"


def test_a_class_serves_the_name_that_it_states_and_one_of_its_own() -> None:
    assert served(device_class(extendedResourceName="nvidia.com/gpu")) == (
        frozenset({"nvidia.com/gpu", IMPLICIT}),
        (),
    )


@pytest.mark.parametrize("spec", [{}, {"extendedResourceName": None}, {"extendedResourceName": ""}], ids=repr)
def test_a_class_that_states_no_name_serves_its_own(spec: dict[str, object]) -> None:
    assert served(device_class(**spec)) == (frozenset({IMPLICIT}), ())


BROKEN = {
    "no name": (device_class(None), set(), "metadata.name: is missing"),
    "a number": (
        device_class(extendedResourceName=7),
        {IMPLICIT},
        "spec.extendedResourceName: must be a string, not a number",
    ),
    "a text without end": (
        device_class(extendedResourceName="x" * 1_000_000),
        {IMPLICIT},
        "spec.extendedResourceName: is not a resource name: at most 317 characters are allowed, not 1000000",
    ),
    "a spec that is a list": (
        {**device_class(), "spec": []},
        {IMPLICIT},
        "spec: must be an object, not a list",
    ),
}


@pytest.mark.parametrize(("raw", "names", "mistake"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_with_a_class_is_told_and_the_rest_counts(
    raw: dict[str, object], names: set[str], mistake: str
) -> None:
    found, mistakes = served(raw)

    assert (found, [str(each) for each in mistakes]) == (frozenset(names), [mistake])


def test_of_a_class_what_nobody_reads_is_cut_away() -> None:
    cut = COLLECTIONS[0].described(device_class(extendedResourceName="a/b", config=[{"opaque": {}}]))

    assert cut == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": "a/b"},
    }
