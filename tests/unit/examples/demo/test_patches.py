"""Patches apply as an API server applies them, or not at all."""

import copy
from typing import Any

import pytest

from examples.demo.patches import BadPatch, apply

SPEC = {"list": [1, 2], "a/b~c": {"x": 1}}
POD = {"spec": SPEC}


@pytest.mark.parametrize(
    ("op", "path", "value", "changed"),
    [
        pytest.param("add", "/spec/new", {}, {"new": {}}, id="new member"),
        pytest.param("add", "/spec/list", 1, {"list": 1}, id="add replaces a member"),
        pytest.param("add", "/spec/list/0", 0, {"list": [0, 1, 2]}, id="into a list"),
        pytest.param("add", "/spec/list/-", 3, {"list": [1, 2, 3]}, id="end of a list"),
        pytest.param("replace", "/spec/list/1", 9, {"list": [1, 9]}, id="element"),
        pytest.param("replace", "/spec/a~1b~0c/x", 2, {"a/b~c": {"x": 2}}, id="escaped name"),
    ],
)
def test_operation_is_applied_to_a_copy(op: str, path: str, value: object, changed: dict[str, Any]) -> None:
    before = copy.deepcopy(POD)
    assert apply(POD, [{"op": op, "path": path, "value": value}]) == {"spec": {**SPEC, **changed}}
    assert before == POD


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "add", "path": "/metadata/labels", "value": {}}, id="no parent"),
        pytest.param({"op": "replace", "path": "/spec/none", "value": 1}, id="nothing to replace"),
        pytest.param({"op": "add", "path": "/spec/list/3", "value": 1}, id="beyond the list"),
        pytest.param({"op": "replace", "path": "/spec/list/-", "value": 1}, id="replace at the end"),
        pytest.param({"op": "add", "path": "/spec/list/01", "value": 1}, id="no position"),
        pytest.param({"op": "remove", "path": "/spec/list"}, id="other operation"),
        pytest.param({"op": "replace", "path": "", "value": {}}, id="empty path"),
        pytest.param({"op": "add", "path": "/spec/x"}, id="no value"),
    ],
)
def test_operation_that_does_not_fit_is_an_error(operation: dict[str, Any]) -> None:
    with pytest.raises(BadPatch):
        apply(POD, [operation])


def test_operations_are_applied_in_order() -> None:
    steps: list[dict[str, Any]] = [
        {"op": "add", "path": "/a", "value": {}},
        {"op": "add", "path": "/a/b", "value": 1},
    ]
    assert apply({}, steps) == {"a": {"b": 1}}
    assert steps[0]["value"] == {}
