"""
Read a file with ranking strategies for some nodes.

Machines of one cluster may need different strategies: GPU nodes are packed full, so that whole ones stay
free, while nodes for databases keep some room. All mistakes in a file are reported at once.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from numalign.cache.ranking import Measure, Ranking
from numalign.kube.decode.parts import Part
from numalign.kube.files import edited
from numalign.kube.files.edited import members, only, requirements
from numalign.model.errors import BadInput
from numalign.scheduling.ranking import HEAVIEST, MEASURES, WEIGHS, Choice, RankingRules, no_resource, not_one

MOST_WEIGHTS = 64
"""Most resources in one entry; a pod requests only a few."""


class BadRanking(BadInput):
    """Raised when a ranking file cannot be used, with every mistake in it."""


def read(path: Path, *, default: Ranking) -> RankingRules:
    """Return the rankings in a file; raise `BadRanking` with every mistake and its position.

    What the file does not set for all nodes is as in `default`.
    """
    return edited.read(path, partial(parse, default=default), error=BadRanking)


def parse(data: bytes, *, default: Ranking) -> RankingRules:
    """Return the rankings in YAML or JSON; raise `BadRanking` with every mistake and its path."""

    def rules(document: Part) -> RankingRules:
        only(document, "rankings", "strategies", "weights")
        general = _ranking(document, default)
        return RankingRules(general, tuple(_choice(part, general) for part in document["rankings"].objects()))

    return edited.parse(data, rules, what="ranking", error=BadRanking)


def _choice(part: Part, general: Ranking) -> Choice:
    """Return one entry, completed by the general ranking; without nodes or content it is a mistake."""
    only(part, "nodeSelector", "strategies", "weights")
    before = len(part.mistakes)
    selected = tuple(requirements(part["nodeSelector"]))
    if not selected and len(part.mistakes) == before:
        part["nodeSelector"].wrong("is empty: strategies and weights for all nodes belong at the top level")
    if part["strategies"].value is None and part["weights"].value is None:
        part.wrong("sets nothing for these nodes: add strategies or weights")
    return Choice(selected, _ranking(part, general))


def _ranking(part: Part, otherwise: Ranking) -> Ranking:
    strategies, weights = part["strategies"], part["weights"]
    return Ranking(
        otherwise.strategies if strategies.value is None else _strategies(strategies),
        otherwise.weights if weights.value is None else _weights(weights),
    )


def _strategies(part: Part) -> tuple[Measure, ...]:
    words = list[str]()
    if part.value == []:
        part.wrong(f"is empty: name one of {', '.join(MEASURES)}")
    if isinstance(part.value, list) and len(part.value) > len(MEASURES):
        part.wrong(f"has {len(part.value)} entries, but there are only {len(MEASURES)} strategies")
    for entry in part.elements():
        word = entry.required_text()
        if not word:
            continue
        if why := not_one(word, words):
            entry.wrong(why)
        words.append(word)
    return tuple(MEASURES[word] for word in words if word in MEASURES)


def _weights(part: Part) -> Mapping[str, int]:
    """Return weights by resource; an invalid one is 1."""
    listed = members(part)
    if len(listed) > MOST_WEIGHTS:
        part.wrong(f"has {len(listed)} entries: at most {MOST_WEIGHTS} are allowed")
        return {}
    weights = {name: 1 for name, _ in listed}
    for name, member in listed:
        weight = member.value
        if why := no_resource(name):
            member.wrong(why)
        elif isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= HEAVIEST:
            member.wrong(WEIGHS)
        else:
            weights[name] = weight
    return weights
