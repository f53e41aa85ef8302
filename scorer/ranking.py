"""
Which of the nodes that can take a pod is the best.

Alignment comes first: a node that only tries its best is worth less than one that keeps its promise. Among
equals the strategies decide, in the order in which somebody named them. Values of 0 to 100 are compared as
they are and scaled last, for a scheduler's eleven numbers would make equals of most nodes.
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from types import MappingProxyType

from numalign.cluster import labels as shapes
from numalign.cluster.selectors import Requirement
from numalign.fleet import Question
from numalign.rules import scoring
from numalign.rules.scoring import HIGHEST, Strategy, Weights
from numalign.rules.topology import Node
from numalign.rules.verdict import Verdict
from scorer.protocol import MAX_SCORE

HEAVIEST = 100
"""What a resource can weigh at most, as in kube-scheduler's own plugins."""

WEIGHS = f"needs a weight, a whole number from 1 to {HEAVIEST}"

_WEIGHT = re.compile(r"[1-9][0-9]?|100")
_LONGEST = 64

# Aligned nodes whose first value is 0 have up to this much, and others at most a tie; those of 1 have 0.8.
_LEAST, _TIE = 0.5, 0.2


class Relative(StrEnum):
    """What makes one node better than the others that are asked about with it."""

    NUMA_NODES = "RelativeNUMANodes"


Measure = Strategy | Relative
"""What gives a node a value from 0 to 100; a `Relative` one looks at all nodes to do so."""

MEASURES: Mapping[str, Measure] = MappingProxyType({str(each): each for each in (*Strategy, *Relative)})
"""By the names that people write."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A node that was asked about a pod, as it was before the pod, and what it said.

    The policy of `question.intent` is `none` where nobody stated one. `labels` need hold no others than those
    that `RankingRules.label_keys` names.
    """

    name: str
    node: Node
    verdict: Verdict
    question: Question
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """What decides between nodes that align a pod alike: the first strategy, and among equals the next."""

    strategies: tuple[Measure, ...] = (Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED)
    weights: Weights = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """A ranking for nodes whose labels meet all requirements."""

    requirements: tuple[Requirement, ...]
    ranking: Ranking

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is meant."""
        return all(requirement.holds(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class RankingRules:
    """How nodes are ranked: by the first choice that concerns them, else by the default.

    Nodes of different rankings are compared value by value all the same, so what one strategy says of its
    node stands against what another says of its own. Of a node with fewer strategies than another the
    missing ones say the best, for nobody looks for faults there.
    """

    default: Ranking = Ranking()
    choices: tuple[Choice, ...] = ()

    def of(self, labels: Mapping[str, str]) -> Ranking:
        """The ranking of a node with these labels."""
        chosen = (choice.ranking for choice in self.choices if choice.concerns(labels))
        return next(chosen, self.default)

    @property
    def width(self) -> int:
        """How many values a score has: as many as the ranking of the most strategies gives."""
        rankings = (self.default, *(choice.ranking for choice in self.choices))
        return max(len(ranking.strategies) for ranking in rankings)

    def label_keys(self) -> frozenset[str]:
        """The keys of all labels of nodes that matter."""
        return frozenset(each.key for choice in self.choices for each in choice.requirements)


@dataclass(frozen=True, slots=True)
class Score:
    """What a node is worth to a pod: `values` by the strategies of its ranking, each 0 to 100.

    All scores of a pod have as many values, so there may be more of them than the ranking has strategies.
    A node that refuses the pod, or of which nothing is known, is not `admitted`. One that is not `aligned`
    takes the pod, but its kubelet would spread it further than it has to be.
    """

    name: str
    values: tuple[int, ...] = ()
    aligned: bool = False
    admitted: bool = False

    @property
    def rank(self) -> tuple[int, ...]:
        """What scores are compared by: the larger the better."""
        return (self.admitted, self.aligned, *self.values)


def scores(judged: Sequence[Judged], rules: RankingRules, *, opted_out: bool = False) -> list[Score]:
    """The score of each of these nodes for one pod, in the order in which they come.

    A pod that has `opted_out`, by saying `none`, is as well off on every node that takes it. A pod that says
    nothing has not: it ranks by the policies of the nodes.
    """
    # Who refuses is filtered out, or will be: Volcano scores the others alone.
    admitted = [each for each in judged if each.verdict.admitted]
    most = max((len(each.verdict.placement.zones) for each in admitted), default=0)
    nothing, all_alike = (0,) * rules.width, (HIGHEST,) * rules.width

    def score(each: Judged) -> Score:
        if not each.verdict.admitted:
            return Score(each.name, nothing)
        if opted_out:
            return Score(each.name, all_alike, aligned=True, admitted=True)
        values = _values(each, rules.of(each.labels), most)
        return Score(each.name, values + all_alike[len(values) :], aligned=_is_aligned(each), admitted=True)

    return [score(each) for each in judged]


def _is_aligned(judged: Judged) -> bool:
    """Whether the kubelet aligns what the pod means, if the pod has any of it."""
    question, placement = judged.question, judged.verdict.placement
    return not question.concerned or scoring.aligned(judged.node, question.demand, placement, question.intent)


def _values(judged: Judged, ranking: Ranking, most: int) -> tuple[int, ...]:
    own = [measure for measure in ranking.strategies if isinstance(measure, Strategy)]
    placement = judged.verdict.placement
    found = iter(scoring.scores(own, judged.node, judged.question.demand, placement, ranking.weights))
    return tuple(
        _RELATIVE[measure](len(placement.zones), most) if isinstance(measure, Relative) else next(found)
        for measure in ranking.strategies
    )


def _fewer_than_the_most(zones: int, most: int) -> int:
    """Volcano's numaaware.go: what is pinned nowhere is best everywhere."""
    return HIGHEST - HIGHEST * zones // most if most else HIGHEST


_RELATIVE: Mapping[Relative, Callable[[int, int], int]] = MappingProxyType(
    {Relative.NUMA_NODES: _fewer_than_the_most}
)
"""By how many zones the pod gets on a node, and the most that it gets on any of the nodes."""


def in_order(scores: Iterable[Score]) -> list[Score]:
    """The best first, equals by name."""
    return sorted(sorted(scores, key=lambda score: score.name), key=lambda score: score.rank, reverse=True)


def above_equals(scores: Sequence[Score], names: AbstractSet[str]) -> list[Score]:
    """The same scores, but that these nodes come before all that are as good: one is meant to be taken."""
    return [replace(each, values=(*each.values, HIGHEST)) if each.name in names else each for each in scores]


def squeezed(scores: Sequence[Score]) -> list[tuple[str, int]]:
    """Each node with a number from 0 to 10, as kube-scheduler takes them.

    The best node that admits the pod has 10, and nodes that do not have 0. Kinds of nodes that differ have
    different numbers if there are no more than eleven, the nodes that refuse being one of them; of more,
    about as many share each number, and only the best has 10.
    """
    kinds = sorted({_kind(score) for score in scores})
    last = len(kinds) - 1
    numbers = {kind: MAX_SCORE * at // last if last else MAX_SCORE for at, kind in enumerate(kinds)}
    return [(score.name, numbers[_kind(score)] if score.admitted else 0) for score in scores]


def _kind(score: Score) -> tuple[int, ...]:
    """By what it is ranked; all that refuse are alike, and below the others."""
    return score.rank if score.admitted else ()


def absolute(scores: Sequence[Score]) -> list[tuple[str, float]]:
    """Each node with a number from 0 to 100, in the order of the scores, as Volcano takes them.

    It is the value of the first strategy, lower by less than one for what the next ones say. A node that is
    not aligned has less than any that is, whatever its values; one that refuses has 0.
    """
    return [(score.name, _absolute(score) if score.admitted else 0.0) for score in scores]


def _absolute(score: Score) -> float:
    if not score.aligned:
        return _TIE * _share(score.values)
    first, *rest = score.values
    return max(first, _LEAST) - _TIE * (1 - _share(rest))


def _share(values: Sequence[int]) -> float:
    """Values as the digits of one number, the first the highest, as a share of the largest with so many."""
    if not values:
        return 1.0
    return _number(values) / _number((HIGHEST,) * len(values))


def _number(digits: Sequence[int]) -> int:
    return reduce(lambda number, digit: number * (HIGHEST + 1) + digit, digits)


def parse_strategies(text: str) -> tuple[Measure, ...]:
    """Strategies by name, with commas between them; raises `ValueError` with all that is wrong."""
    words = [word.strip() for word in text.split(",")]
    if len(words) > len(MEASURES):
        raise ValueError(f"{len(words)} strategies are named, and there are {len(MEASURES)}")
    wrong = [why for at, word in enumerate(words) if (why := not_one(word, words[:at]))]
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(MEASURES[word] for word in words)


def not_one(word: str, before: Collection[str]) -> str | None:
    """Why a word cannot be the next strategy after those before it; None, if it can."""
    if word in before:
        return f'"{word}" is named twice'
    if word in MEASURES:
        return None
    if not word:
        return f"a name is missing: one of {', '.join(MEASURES)}"
    by_small = {name.lower(): name for name in MEASURES}
    close = difflib.get_close_matches(word.lower()[:_LONGEST], by_small, n=1)
    meant = f'"{by_small[close[0]]}" is meant?' if close else f"known are {', '.join(MEASURES)}"
    return f'"{word[:_LONGEST]}" is no strategy; {meant}'


def parse_weights(text: str) -> Mapping[str, int]:
    """Weights by resource, as in `nvidia.com/gpu=3,cpu=1`; raises `ValueError` with all that is wrong."""
    pairs = [pair.partition("=") for pair in text.split(",")] if text.strip() else []
    named = [(name.strip(), weight.strip()) for name, _, weight in pairs]
    names = [name for name, _ in named]
    wrong = [why for name in names if (why := no_resource(name))]
    wrong += [f'"{name}" is named twice' for name, count in Counter(names).items() if count > 1]
    wrong += [f'"{name}" {WEIGHS}, like {name}=1' for name, weight in named if not _WEIGHT.fullmatch(weight)]
    if wrong:
        raise ValueError("; ".join(wrong))
    return {name: int(weight) for name, weight in named}


def no_resource(name: str) -> str | None:
    """Why nothing that a pod asks for can have this name; None, if something can."""
    if shapes.KEY.fullmatch(name):
        return None
    return f'"{name[:_LONGEST]}" is no name of a resource, like cpu or nvidia.com/gpu'
