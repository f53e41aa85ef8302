"""Patches apply as an API server applies them, or not at all."""

import copy
from typing import Any

import pytest

from examples.demo.patches import BadPatch, apply
from tests.worlds.notation import table

POD = {"spec": {"list": [1, 2], "a/b~c": {"x": 1}}}


@pytest.mark.parametrize(
    ("operation", "spec"),
    table(
        [
            ("a new member", {"op": "add", "path": "/spec/new", "value": {}}, {**POD["spec"], "new": {}}),
            (
                "add replaces a member",
                {"op": "add", "path": "/spec/list", "value": 1},
                {**POD["spec"], "list": 1},
            ),
            (
                "into a list",
                {"op": "add", "path": "/spec/list/0", "value": 0},
                {**POD["spec"], "list": [0, 1, 2]},
            ),
            (
                "after the last",
                {"op": "add", "path": "/spec/list/-", "value": 3},
                {**POD["spec"], "list": [1, 2, 3]},
            ),
            (
                "an element",
                {"op": "replace", "path": "/spec/list/1", "value": 9},
                {**POD["spec"], "list": [1, 9]},
            ),
            (
                "names with slash and tilde",
                {"op": "replace", "path": "/spec/a~1b~0c/x", "value": 2},
                {**POD["spec"], "a/b~c": {"x": 2}},
            ),
        ]
    ),
)
def test_operation_is_applied(operation: dict[str, Any], spec: dict[str, Any]) -> None:
    before = copy.deepcopy(POD)
    assert apply(POD, [operation]) == {"spec": spec}
    assert before == POD


@pytest.mark.parametrize(
    "operation",
    table(
        [
            ("no parent", {"op": "add", "path": "/metadata/labels", "value": {}}),
            ("nothing to replace", {"op": "replace", "path": "/spec/none", "value": 1}),
            ("beyond the list", {"op": "add", "path": "/spec/list/3", "value": 1}),
            ("replace after the last", {"op": "replace", "path": "/spec/list/-", "value": 1}),
            ("no position", {"op": "add", "path": "/spec/list/01", "value": 1}),
            ("another operation", {"op": "remove", "path": "/spec/list"}),
            ("the whole document", {"op": "replace", "path": "", "value": {}}),
            ("no value", {"op": "add", "path": "/spec/x"}),
        ]
    ),
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
