"""What all nodes say at one moment, beside the pods that are there."""

from numalign.cache import Question
from numalign.model.constraints import ANYWHERE
from numalign.model.intent import Intent, Policy
from numalign.scheduling.current_answers import current_answers
from numalign.scheduling.node_explanation import Chance, Rules
from tests.worlds.notation import asks, node
from tests.worlds.scorer import SINGLE, Scorer, on, raw, running, uid

QUESTION = Question(asks("cpu=4 mem=1Gi"), Intent(Policy.SINGLE_NUMA_NODE))
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
