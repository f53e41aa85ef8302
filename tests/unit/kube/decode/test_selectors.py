"""Selectors of labels; what can be wrong with one in a file is in the tests of policy files."""

import pytest

from numalign.kube.decode.parts import Part
from numalign.kube.decode.selectors import requirements
from numalign.model.constraints import Operator, Requirement
from tests.worlds.notation import table

GOLD = Requirement("tier", Operator.IN, frozenset({"gold", "silver"}))
NOT_GOLD = Requirement("tier", Operator.NOT_IN, frozenset({"gold"}))
EMPTY = Requirement("tier", Operator.IN, frozenset({""}))
TIERED = Requirement("tier", Operator.EXISTS)
TIERLESS = Requirement("tier", Operator.DOES_NOT_EXIST)

SELECTED = [
    # what it shows           the requirement, whether it holds for gold, lead, an empty value, and no label
    ("one of the values",     GOLD,            (True,  False, False, False)),
    ("none of the values",    NOT_GOLD,        (False, True,  True,  True)),
    ("an empty value",        EMPTY,           (False, False, True,  False)),
    ("any value",             TIERED,          (True,  True,  True,  False)),
    ("no such label",         TIERLESS,        (False, False, False, True)),
]  # fmt: skip


@pytest.mark.parametrize(("requirement", "holds"), table(SELECTED))
def test_a_label_is_selected_by(requirement: Requirement, holds: tuple[bool, ...]) -> None:
    labels = ({"tier": "gold"}, {"tier": "lead"}, {"tier": ""}, {"other": "gold"})

    assert tuple(map(requirement.holds, labels)) == holds


@pytest.mark.parametrize(
    ("requirement", "shown"),
    [
        (GOLD, "tier in (gold,silver)"),
        (NOT_GOLD, "tier notin (gold)"),
        (TIERED, "tier"),
        (TIERLESS, "!tier"),
    ],
)
def test_a_requirement_is_shown_as_kubectl_writes_it(requirement: Requirement, shown: str) -> None:
    assert str(requirement) == shown


def test_labels_and_expressions_are_required_alike() -> None:
    part = Part(
        {
            "matchLabels": {"tier": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["silver", "gold"]},
                {"key": "tier", "operator": "DoesNotExist"},
            ],
        }
    )

    assert list(requirements(part)) == [EMPTY, GOLD, TIERLESS]
    assert part.mistakes == []


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {}, "matchExpressions": []}])
def test_a_selector_that_says_nothing_requires_nothing(selector: object) -> None:
    assert list(requirements(Part(selector))) == []


def test_a_selector_that_is_wrong_notes_every_mistake() -> None:
    part = Part({"tier": "gold", "matchLabels": {"a b": "c"}, "matchExpressions": [{"key": "tier"}]})

    list(requirements(part))

    assert [mistake.where for mistake in part.mistakes] == [
        "tier",
        "matchLabels[a b]",
        "matchExpressions[0].operator",
    ]
