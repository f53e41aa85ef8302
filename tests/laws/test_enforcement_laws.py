"""Laws of enforcement: what meets a level by its annotations would meet it without them, on every node."""

from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from numalign.cache import Question
from numalign.decision.evaluate import evaluate
from numalign.model.node import Node
from numalign.shapes.hints import unhinted
from tests.laws import fleets
from tests.laws.fleets import seeded


def admits(node: Node, asked: Question) -> bool:
    return evaluate(node, asked.demand, asked.intent).admitted


@given(st.integers(0, 2**32))
def test_no_node_aligns_a_pod_only_because_its_annotation_lists_less(seed: int) -> None:
    nodes, asked, _ = seeded(fleets.case, seed)
    # Levels leave aside what only a feature gate pins; and best-effort is aligned wherever it is.
    assume(asked.demand.pod_level is None and asked.intent.binding)
    missing = asked.left_out(unhinted(nodes))
    event(
        "lists all" if asked.intent.resources and not missing else "lists less" if missing else "lists none"
    )
    everything = Question(asked.demand, replace(asked.intent, resources=()))

    weaker = [node for node in nodes if admits(node, asked) and not admits(node, everything)]
    assert weaker == [] or missing
