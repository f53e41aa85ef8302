"""What would come in place of a pod, as far as the pod tells."""

from typing import Any

import pytest

from controller.healing.replacements import template_of
from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.intent import PINNED_AT
from tests.unit.controller.healing.conftest import web

PIN = {"key": "metadata.name", "operator": "In", "values": ["a"]}
POOL = {"key": "pool", "operator": "In", "values": ["gpu"]}


def placed(*terms: dict[str, Any], pinned: bool = True) -> dict[str, Any]:
    """A pod on node `a`, whose node affinity requires one of these terms."""
    annotations = {PINNED_AT: "2027-01-15T07:59:00Z"} if pinned else {}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}
    return web("web-1", annotations=annotations, spec={"nodeName": "a", "affinity": affinity})


def terms(made: dict[str, Any]) -> object:
    """What node affinity requires."""
    required = made["spec"]["affinity"]["nodeAffinity"].get(REQUIRED)
    return required and required["nodeSelectorTerms"]


def test_it_has_no_node_and_no_uid() -> None:
    template = template_of({**web("web-1"), "spec": {"nodeName": "a", "containers": []}}, "a")

    assert template["spec"] == {"containers": []}
    assert "uid" not in template["metadata"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([{"matchFields": [PIN]}], None),
        ([{"matchFields": [PIN], "matchExpressions": [POOL]}], [{"matchExpressions": [POOL]}]),
        (
            [
                {"matchExpressions": [POOL], "matchFields": [PIN]},
                {"matchExpressions": [POOL], "matchFields": [PIN]},
            ],
            [{"matchExpressions": [POOL]}, {"matchExpressions": [POOL]}],
        ),
        ([{"matchFields": [{**PIN, "values": ["b"]}]}], [{"matchFields": [{**PIN, "values": ["b"]}]}]),
    ],
    ids=["the pin alone", "beside a pool", "in several terms", "of another node"],
)
def test_the_pin_is_not_of_the_template(before: list[dict[str, Any]], after: object) -> None:
    assert terms(template_of(placed(*before), "a")) == after


@pytest.mark.parametrize("pinned", [True, False])
def test_nodes_that_were_excluded_with_the_gate_are_not_of_the_template(*, pinned: bool) -> None:
    kept_off = {"key": "numalign.io/node", "operator": "NotIn", "values": ["b"]}

    assert terms(template_of(placed({"matchExpressions": [kept_off]}, pinned=pinned), "a")) is None
    assert terms(template_of(placed({"matchExpressions": [POOL, kept_off]}, pinned=pinned), "a")) == [
        {"matchExpressions": [POOL]}
    ]


def test_who_was_not_pinned_by_us_keeps_what_it_asks_for() -> None:
    assert terms(template_of(placed({"matchFields": [PIN]}, pinned=False), "a")) == [{"matchFields": [PIN]}]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": None},
        {"affinity": {"nodeAffinity": []}},
        {"affinity": {"nodeAffinity": {REQUIRED: "x"}}},
    ],
    ids=["nothing", "null", "a list", "a text"],
)
def test_what_makes_no_sense_is_left_for_the_reader(spec: dict[str, Any]) -> None:
    made = web("web-1", annotations={PINNED_AT: "x"})
    made["spec"] = spec

    assert template_of(made, "a")["spec"] == spec
