"""The template of a pod's replacement, as far as the pod shows it."""

from typing import Any

import pytest

from controller.healing.replacements import template_of
from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.intent import PINNED_AT
from tests.unit.controller.healing.conftest import web
from tests.worlds.notation import table

Json = dict[str, Any]

PIN = {"key": "metadata.name", "operator": "In", "values": ["a"]}
PIN_TO_B = {"matchFields": [{**PIN, "values": ["b"]}]}
IN_POOL = {"key": "pool", "operator": "In", "values": ["gpu"]}
AVOID_B = {"key": "numalign.io/node", "operator": "NotIn", "values": ["b"]}
POOL, AVOIDING = {"matchExpressions": [IN_POOL]}, {"matchExpressions": [AVOID_B]}
BOTH = {"matchExpressions": [IN_POOL, AVOID_B]}
PINNED, PINNED_POOL = {"matchFields": [PIN]}, {**POOL, "matchFields": [PIN]}


def test_template_has_no_node_and_no_uid() -> None:
    template = template_of({**web("web-1"), "spec": {"nodeName": "a", "containers": []}}, "a")

    assert template["spec"] == {"containers": []}
    assert "uid" not in template["metadata"]


TERMS: list[tuple[str, list[Json], bool, list[Json] | None]] = [
    # the affinity of the pod            its terms                   pinned?  those of the template
    ("a pin",                            [PINNED],                   True,    None),
    ("a pin and a pool",                 [PINNED_POOL],              True,    [POOL]),
    ("another node",                     [PIN_TO_B],                 True,    [PIN_TO_B]),
    ("a node that it names itself",      [PINNED],                   False,   [PINNED]),
    ("an exclusion",                     [AVOIDING],                 False,   None),
    ("an exclusion, a pool and a pin",   [BOTH],                     True,    [POOL]),
    ("an exclusion and a pool",          [BOTH],                     False,   [POOL]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "pinned", "after"), table(TERMS))
def test_template_of_a_pod_with(before: list[Json], after: list[Json] | None, *, pinned: bool) -> None:
    annotations = {PINNED_AT: "2027-01-15T07:59:00Z"} if pinned else {}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": before}}}
    made = web("web-1", annotations=annotations, spec={"nodeName": "a", "affinity": affinity})

    required = template_of(made, "a")["spec"]["affinity"]["nodeAffinity"].get(REQUIRED)
    assert (required and required["nodeSelectorTerms"]) == after


@pytest.mark.parametrize("affinity", [None, {"nodeAffinity": []}, {"nodeAffinity": {REQUIRED: "x"}}], ids=str)
def test_odd_affinity_is_copied(affinity: Json | None) -> None:
    made = {**web("web-1", annotations={PINNED_AT: "x"}), "spec": {"affinity": affinity}}

    assert template_of(made, "a")["spec"] == {"affinity": affinity}
