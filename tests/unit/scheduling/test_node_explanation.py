"""What one node says: the answer in a word, the reason in a sentence, and how often the rules are asked."""

from dataclasses import replace

import pytest

from numalign.cache import Question
from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.verdict import Verdict
from numalign.kube.exporters import ExporterHealth, TopologySource
from numalign.model.constraints import ANYWHERE, Unmet
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.steps import Steps
from numalign.scheduling import node_explanation
from numalign.scheduling.node_answers import kept_away
from numalign.scheduling.node_explanation import (
    Chance,
    NodeExplanation,
    NodeResult,
    Rules,
    current_answers,
)
from tests.worlds.notation import asks, node
from tests.worlds.scorer import SINGLE, Scorer, on, raw, running, uid

QUESTION = Question(asks("cpu=4 mem=1Gi"), Intent(Policy.SINGLE_NUMA_NODE))
EXPORTER = ExporterHealth(TopologySource.EXPORTER)

EMPTY = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="single-numa-node")
FULL = node("cpu=8//2 mem=8Gi", "cpu=8//2 mem=8Gi", policy="single-numa-node")
SMALL = node("cpu=2 mem=8Gi", "cpu=2 mem=8Gi", policy="single-numa-node")


def explained(made: Node, unmet: Unmet | None = None, *, lasting: bool = False) -> NodeExplanation:
    verdict = evaluate(made, QUESTION.demand, QUESTION.intent)
    refused = (verdict, "have too little") if verdict.refused else ()
    result = NodeResult(made, None, *refused) if refused else NodeResult(made, 50)
    return NodeExplanation(result, Rules(QUESTION), EXPORTER, unmet, lasting)


CORDONED = Unmet.CORDONED


@pytest.mark.parametrize(
    ("explanation", "chance", "score"),
    [
        (explained(EMPTY), Chance.FITS, 50),
        (explained(FULL), Chance.LATER, None),
        (explained(SMALL), Chance.NEVER, None),
        (explained(EMPTY, CORDONED), Chance.LATER, None),
        (explained(EMPTY, CORDONED, lasting=True), Chance.NEVER, None),
    ],
)
def test_the_answer_in_a_word(explanation: NodeExplanation, chance: Chance, score: int | None) -> None:
    assert (explanation.chance, explanation.score) == (chance, score)
    assert (explanation.placement is not None) is (chance is Chance.FITS)
    assert (explanation.reason is None) is (chance is Chance.FITS)


def test_every_obstacle_has_one_sentence() -> None:
    assert explained(FULL, CORDONED).reason == (
        f"{explained(EMPTY, CORDONED).reason}; {explained(FULL).reason}"
    )
    assert explained(FULL, CORDONED).kind_of_reason == f"{CORDONED} and have too little"
    assert kept_away(CORDONED) == f"node(s) {CORDONED}"


def test_equal_nodes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def counting(made: Node, demand: Demand, intent: Intent) -> Steps[Verdict]:
        names.append(made.name)
        return evaluating(made, demand, intent)

    monkeypatch.setattr(node_explanation, "evaluating", counting)
    rules = Rules(QUESTION)

    verdicts = {id(rules.verdict(replace(EMPTY, name=name))) for name in "abc"}

    assert (names, len(verdicts)) == (["a"], 1)


# What all nodes answer at one moment, beside the pods that are there.

ONE_PLACE = node("cpu=4 mem=8Gi", policy=SINGLE, totals="cpu=5 mem=8Gi")


def chances(scorer: Scorer, name: str = "") -> dict[str, tuple[Chance, str | None]]:
    """The answers to a pod of four CPUs; one of this name, if there is one, is that pod."""
    answers = current_answers(scorer.state, QUESTION, ANYWHERE, uid=uid(name))
    explained = (answers.explanation(at, Rules(QUESTION)) for at in range(len(answers.nodes)))
    return {each.node.name: (each.chance, each.reason) for each in explained}


async def test_a_pod_takes_no_room_from_itself(scorer: Scorer) -> None:
    await scorer.know({"a": ONE_PLACE})
    scorer.see(running(on("a", raw("cpu=4 mem=1Gi", name="old"))))
    assert chances(scorer, "old") == {"a": (Chance.FITS, None)}
    assert chances(scorer, "new")["a"][0] is Chance.LATER


async def test_shared_cpus_are_subtracted_from_node_totals(scorer: Scorer) -> None:
    await scorer.know({"a": ONE_PLACE})
    scorer.see(running(on("a", raw("cpu=1.5", name="old", policy=None))))
    assert chances(scorer)["a"][0] is Chance.LATER
