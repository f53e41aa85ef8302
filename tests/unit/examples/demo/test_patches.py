"""Patches apply as an API server applies them, or not at all."""

import copy
from typing import Any

import pytest

from examples.demo.patches import BadPatch, apply
from tests.worlds.notation import table

SPEC = {"list": [1, 2], "a/b~c": {"x": 1}}
POD = {"spec": SPEC}


@pytest.mark.parametrize(
    ("op", "path", "value", "changed"),
    [
        ("add", "/spec/new", {}, {"new": {}}),
        ("add", "/spec/list", 1, {"list": 1}),
        ("add", "/spec/list/0", 0, {"list": [0, 1, 2]}),
        ("add", "/spec/list/-", 3, {"list": [1, 2, 3]}),
        ("replace", "/spec/list/1", 9, {"list": [1, 9]}),
        ("replace", "/spec/a~1b~0c/x", 2, {"a/b~c": {"x": 2}}),
    ],
)
def test_operation_is_applied_to_a_copy(op: str, path: str, value: object, changed: dict[str, Any]) -> None:
    before = copy.deepcopy(POD)
    assert apply(POD, [{"op": op, "path": path, "value": value}]) == {"spec": {**SPEC, **changed}}
    assert before == POD


WRONG = [
    ("no parent",          {"op": "add", "path": "/metadata/labels", "value": {}}),
    ("nothing to replace", {"op": "replace", "path": "/spec/none", "value": 1}),
    ("beyond the list",    {"op": "add", "path": "/spec/list/3", "value": 1}),
    ("replace at the end", {"op": "replace", "path": "/spec/list/-", "value": 1}),
    ("no position",        {"op": "add", "path": "/spec/list/01", "value": 1}),
    ("other operation",    {"op": "remove", "path": "/spec/list"}),
    ("empty path",         {"op": "replace", "path": "", "value": {}}),
    ("no value",           {"op": "add", "path": "/spec/x"}),
]  # fmt: skip


@pytest.mark.parametrize("operation", table(WRONG))
def test_operation_that_does_not_fit_is_an_error(operation: dict[str, Any]) -> None:
    with pytest.raises(BadPatch):
        apply(POD, [operation])


def test_operations_are_applied_in_order() -> None:
    steps: list[dict[str, Any]] = [
        {"op": "add", "path": path, "value": value} for path, value in (("/a", {}), ("/a/b", 1))
    ]
    assert apply({}, steps) == {"a": {"b": 1}}
    assert steps[0]["value"] == {}
