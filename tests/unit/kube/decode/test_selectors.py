"""Selectors of labels; what can be wrong with one in a file is in the tests of policy files."""

from numalign.kube.decode.parts import Part
from numalign.kube.decode.selectors import requirements
from numalign.model.constraints import Operator, Requirement

GOLD = Requirement("tier", Operator.IN, frozenset({"gold", "silver"}))
EMPTY = Requirement("tier", Operator.IN, frozenset({""}))
TIERLESS = Requirement("tier", Operator.DOES_NOT_EXIST)


def test_labels_and_expressions_are_requirements() -> None:
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
