"""
The filters of the fleet, as in the query string of the page.

Anyone who can open the page can write anything there, so every part is bounded, and all mistakes are reported
at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from numalign.kube import selectors
from numalign.kube.decode import label_syntax
from numalign.kube.selectors import BadSelector
from numalign.map.views import Condition, FleetQuery
from numalign.model.errors import BadInput, Mistake, cut
from numalign.model.intent import Policy
from numalign.model.resources import CPU
from numalign.model.spelling import closest_word

Value = TypeVar("Value")

MOST_PAIRS = 64
"""Most pairs in one query; there are five names, and one of them has six values."""

LONGEST_CLASS = 63
"""The limit in characters: a class is the value of a label."""

_SHOWN = 64
_ONCE = ("labels", "class", "policy", "resource")
_NAMES = (*_ONCE, "only")


def parse(pairs: Iterable[tuple[str, str]]) -> FleetQuery:
    """Return the query of these pairs of name and value; empty values are ignored.

    Raises `BadInput` with all mistakes, each under its name.
    """
    first = [*islice(pairs, MOST_PAIRS + 1)]
    if len(first) > MOST_PAIRS:
        raise BadInput([Mistake("", f"more than {MOST_PAIRS} filters are set: remove some")])
    values, mistakes = defaultdict[str, list[str]](list), list[Mistake]()
    for name, value in filter(itemgetter(1), first):
        values[name].append(value)
    for name, given in values.items():
        if name not in _NAMES:
            mistakes.append(Mistake(name, f"is not a filter: expected one of {', '.join(_NAMES)}"))
        elif name in _ONCE and len(given) > 1:
            mistakes.append(Mistake(name, f"is set {len(given)} times: set it once"))
    labels, node_class, resource = (next(iter(values[name]), "") for name in ("labels", "class", "resource"))
    selector = selectors.EVERYTHING
    try:
        selector = selectors.parse(labels, where="labels")
    except BadSelector as error:
        mistakes.extend(error.mistakes)
    policies = _known(values["policy"][:1], {policy.value: policy for policy in Policy}, "policy", mistakes)
    named = {condition.value: condition for condition in Condition}
    conditions = _known(values["only"], named, "only", mistakes)
    if len(node_class) > LONGEST_CLASS:
        mistakes.append(Mistake("class", f"is too long: a class has at most {LONGEST_CLASS} characters"))
    if resource and not label_syntax.KEY.fullmatch(resource):
        invalid = f'"{cut(resource, _SHOWN)}" is not a resource name, like cpu or nvidia.com/gpu'
        mistakes.append(Mistake("resource", invalid))
    if mistakes:
        raise BadInput(mistakes)
    return FleetQuery(
        selector=selector,
        node_class=node_class,
        policy=next(iter(policies), None),
        resource=resource or CPU,
        resource_required=bool(resource),
        only=frozenset(conditions),
    )


def _known(
    given: Iterable[str], values: Mapping[str, Value], where: str, mistakes: list[Mistake]
) -> list[Value]:
    """Return the values of these words; for an unknown word, add a mistake with the closest known one."""
    for word in given:
        if word not in values:
            close = closest_word(word.lower()[:_SHOWN], values)
            advice = f'did you mean "{close}"?' if close else f"expected one of {', '.join(values)}"
            mistakes.append(Mistake(where, f'"{cut(word, _SHOWN)}" is not a known value; {advice}'))
    return [values[word] for word in given if word in values]
