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


def admits(node: Node, question: Question) -> bool:
    return evaluate(node, question.demand, question.intent).admitted


@given(st.integers(0, 2**32))
def test_listing_fewer_resources_is_noticed_or_harmless(seed: int) -> None:
    nodes, question, _ = seeded(fleets.case, seed)
    # Levels leave aside what only a feature gate pins; and best-effort is aligned wherever it is.
    assume(question.demand.pod_level is None and question.intent.binding)
    missing = question.left_out(unhinted(nodes))
    event(
        "lists all"
        if question.intent.resources and not missing
        else "lists less"
        if missing
        else "lists none"
    )
    everything = Question(question.demand, replace(question.intent, resources=()))

    weaker = [node for node in nodes if admits(node, question) and not admits(node, everything)]
    assert weaker == [] or missing
