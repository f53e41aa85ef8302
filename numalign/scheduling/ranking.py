"""
Which of the nodes that can take a pod is the best.

Alignment comes first: a best-effort node is worth less than one that guarantees alignment. Among equals the
strategies decide, in the configured order. Values of 0 to 100 are compared as they are and scaled last,
because a scheduler's eleven numbers would make most nodes equal.

Machines of one cluster may need different strategies: GPU nodes are packed full, so that whole ones stay
free, while nodes for databases keep some room. All mistakes in a file of them are reported at once.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from numalign.cache.batch import Batch
from numalign.cache.ranking import Measure, Ranking, Ranks, Relative, ranks
from numalign.decision.scoring import Strategy
from numalign.kube.decode import label_syntax as shapes
from numalign.kube.decode.parts import Part
from numalign.kube.files import edited
from numalign.kube.files.edited import members, only, requirements
from numalign.model.constraints import Requirement
from numalign.model.errors import BadInput
from numalign.model.spelling import closest_word

HEAVIEST = 100
"""The maximum weight of a resource, as in kube-scheduler's own plugins."""

_WEIGHS = f"needs a weight, a whole number from 1 to {HEAVIEST}"

MOST_WEIGHTS = 64
"""Most resources in one entry of a file; a pod requests only a few."""

_WEIGHT = re.compile(r"[1-9][0-9]?|100")
_LONGEST = 64

MEASURES: Mapping[str, Measure] = MappingProxyType({str(each): each for each in (*Strategy, *Relative)})
"""By the names that users write."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A ranking for nodes whose labels meet all requirements."""

    requirements: tuple[Requirement, ...]
    ranking: Ranking

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Return whether it applies to a node with these labels."""
        return all(requirement.holds(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class RankingRules:
    """How nodes are ranked: by the first choice that applies to them, else by the default.

    Nodes of different rankings are still compared value by value, so the value of one strategy is compared
    with that of another. If a node has fewer strategies than another, its missing values count as the best.
    """

    default: Ranking = field(default_factory=Ranking)
    choices: tuple[Choice, ...] = ()

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """All rankings, the default last."""
        return (*(choice.ranking for choice in self.choices), self.default)

    def number_of(self, labels: Mapping[str, str]) -> int:
        """Return which of the `rankings` applies to a node with these labels."""
        chosen = (number for number, choice in enumerate(self.choices) if choice.concerns(labels))
        return next(chosen, len(self.choices))


class Ranker:
    """Ranks nodes; the ranking of a node is computed when its labels change, not for each request."""

    def __init__(self, rules: RankingRules) -> None:
        self._rules = rules
        self._rankings = rules.rankings
        self._bare = rules.number_of({})
        self._numbers: dict[str, tuple[Mapping[str, str], int]] = {}

    def ranks(
        self, batch: Batch, labels: Mapping[str, Mapping[str, str]], *, opted_out: bool = False
    ) -> Ranks:
        """Return the ranks of the nodes of a call for one pod, by their position.

        `labels` are those of each node, none of which is changed in place. A pod has `opted_out` by setting
        `none`; one without any setting has not.
        """
        if not self._rules.choices:
            return ranks(batch, self._rankings, opted_out=opted_out)
        numbers, known = [self._bare] * len(batch.names), self._numbers
        for at, name in enumerate(batch.names):
            if (mine := labels.get(name)) is not None:
                if name not in known or known[name][0] is not mine:
                    known[name] = mine, self._rules.number_of(mine)
                numbers[at] = known[name][1]
        # Nodes that are gone may have left some.
        if len(known) > 2 * len(labels):
            known.clear()
        return ranks(batch, self._rankings, chosen=numbers, opted_out=opted_out)


def parse_strategies(text: str) -> tuple[Measure, ...]:
    """Return strategies from comma-separated names; raise `ValueError` with all mistakes."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > len(MEASURES):
        raise ValueError(f"{len(words)} strategies are listed, and only {len(MEASURES)} exist")
    wrong = [why for at, word in enumerate(words) if (why := _not_one(word, words[:at]))]
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(MEASURES[word] for word in words)


def _not_one(word: str, before: Collection[str]) -> str | None:
    """Return why a word cannot be the next strategy after those before it; None if it can."""
    if word in before:
        return f'"{word}" is named twice'
    if word in MEASURES:
        return None
    if not word:
        return f"a name is missing: one of {', '.join(MEASURES)}"
    by_small = {name.lower(): name for name in MEASURES}
    close = closest_word(word.lower(), by_small)
    meant = f'did you mean "{by_small[close]}"?' if close else f"expected one of {', '.join(MEASURES)}"
    return f'"{word[:_LONGEST]}" is not a strategy; {meant}'


def parse_weights(text: str) -> Mapping[str, int]:
    """Return weights by resource from `nvidia.com/gpu=3,cpu=1`; raise `ValueError` with all mistakes."""
    pairs = [pair.partition("=") for pair in text.split(",")] if text.strip() else []
    named = [(name.strip(), weight.strip()) for name, _, weight in pairs]
    names = [name for name, _ in named]
    wrong = [why for name in names if (why := _no_resource(name))]
    wrong += [f'"{name}" is named twice' for name, count in Counter(names).items() if count > 1]
    wrong += [f'"{name}" {_WEIGHS}, like {name}=1' for name, weight in named if not _WEIGHT.fullmatch(weight)]
    if wrong:
        raise ValueError("; ".join(wrong))
    return {name: int(weight) for name, weight in named}


def _no_resource(name: str) -> str | None:
    """Return why this cannot be the name of a resource; None if it can."""
    if shapes.KEY.fullmatch(name):
        return None
    return f'"{name[:_LONGEST]}" is not a resource name, like cpu or nvidia.com/gpu'


# A file with rankings for some nodes.


class BadRanking(BadInput):
    """Raised when a ranking file cannot be used, with every mistake in it."""


def read_rankings(path: Path, *, default: Ranking) -> RankingRules:
    """Return the rankings in a file; raise `BadRanking` with every mistake and its position.

    What the file does not set for all nodes is as in `default`.
    """
    return edited.read(path, partial(parse_rankings, default=default), error=BadRanking)


def parse_rankings(data: bytes, *, default: Ranking) -> RankingRules:
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
        if why := _not_one(word, words):
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
        if why := _no_resource(name):
            member.wrong(why)
        elif isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= HEAVIEST:
            member.wrong(_WEIGHS)
        else:
            weights[name] = weight
    return weights
