"""
The request of a pod by itself, without its namespace and the policy.

The pods of a template are equal, and they share one value (`PodReader`). Of a pod whose request is too large
to be kept as long as it lives, programs keep less: a `summary`, or only that it is too large.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numalign.kube import kinds
from numalign.kube.decode import placements, pods
from numalign.kube.decode.parts import Part, inner
from numalign.model import demand, intent
from numalign.model.demand import WHOLE_POD, Demand, Step
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import Intent, IntentAnnotations, Policy
from numalign.model.pod import Role
from numalign.model.resources import CPU, EMPTY, MILLI, Kind, Resources, kind

MOST_KEPT = 20_000
"""The limit of what is kept of one part of a pod as long as it lives, in characters of `repr`.

Sixty usual containers take less.
"""

MOST_NAMES, MOST_CHARACTERS = 16, 1024
"""The limits of resources in a summary or a sum, and of the characters of all names in it."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodRequest:
    """The request of a pod by itself.

    `demand` is None if its containers cannot be read, with the mistakes in `unreadable`. The amounts that a
    kubelet gives a pod follow from it, whatever its owner has `written` in annotations.
    """

    demand: Demand | None
    written: IntentAnnotations
    runtime_class: str = ""
    unreadable: tuple[Mistake, ...] = ()
    most: Demand | None = None
    """What the pod may hold at most, if its `demand` is too large to be kept."""

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All mistakes that do not depend on the namespace, for each place those found first."""
        return tuple(first_of_each_place(self.unreadable, self.written.mistakes))


def decode(template: Mapping[str, object], *, most_mistakes: int, server: int | None = None) -> PodRequest:
    """Return the request in a template, with limited mistakes of containers and of annotations.

    `server` is the minor version of the API server that is to store its pods, None for a stored one.
    """
    needs: Demand | None = None
    unreadable: tuple[Mistake, ...] = ()
    try:
        pod = pods.pod(template)
        needs = demand.of(pod if server is None else pod.stored(server))
    except BadInput as error:
        unreadable = error.mistakes[:most_mistakes]
    # `pods.pod` also reports annotations that are not texts.
    written = intent.read(Part(template)["metadata"]["annotations"].text_map())
    written = replace(written, mistakes=written.mistakes[:most_mistakes])
    return PodRequest(needs, written, runtime_class(template), unreadable)


def kept(request: PodRequest) -> PodRequest:
    """Return the request in limited size: if it is too large, as one whose containers cannot be read."""
    if len(repr(request)) <= MOST_KEPT:
        return request
    whole, most = request.demand, None
    if whole is not None:
        # One request for all that any container requests, unless even that is too large.
        sums = Counter[str]()
        for step in (*whole.steps, *(whole.pod_level.steps if whole.pod_level else ())):
            sums.update(step.requests)
        total = whole.total.positive()
        if max(len(sums), len(total)) <= MOST_NAMES:
            one = _step(sums)
            most = Demand(whole.qos, (one,), one, total, by_dra=whole.by_dra & sums.keys())
    brief = IntentAnnotations(request.written.policy)
    return PodRequest(None, brief, request.runtime_class[:MOST_CHARACTERS], (_TOO_LARGE,), most)


def _step(amounts: Mapping[str, int]) -> Step:
    by_kind: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for name in sorted(amounts):
        if name != CPU:
            by_kind[kind(name) is Kind.MEMORY][name] = amounts[name]
    memory, devices = Resources(by_kind[True]), Resources(by_kind[False])
    return Step(WHOLE_POD, Role.APP, amounts.get(CPU, 0), memory, devices)


_TOO_LARGE = Mistake(
    "spec", f"requests so much that keeping it would take more than {MOST_KEPT:,} characters"
)


def summary(request: PodRequest) -> PodRequest | None:
    """Return a request of limited size that is below the same levels of a namespace; None if it is too large.

    Levels depend on which resources are named, not on their amounts nor on their containers.
    """
    if request.demand is None:
        return None
    written, names = request.written, {name for step in request.demand.steps for name in step.requests}
    left_out = Intent(Policy.NONE, written.resources).left_out(names)
    # A request that names nothing that it requests is not one that names nothing.
    listed = (written.resources and (*sorted(names.difference(left_out)),)) or written.resources[:1]
    characters = sum(map(len, (*names, *listed, request.runtime_class)))
    if len(names) > MOST_NAMES or characters > MOST_CHARACTERS:
        return None
    whole = _step({name: MILLI if name == CPU else 1 for name in names})
    brief = IntentAnnotations(
        written.policy,
        listed,
        mistakes=_WRONG if written.mistakes else (),
        without_policy=_WRONG if written.without_policy else (),
        too_loose=_WRONG if written.too_loose else (),
    )
    return PodRequest(Demand(request.demand.qos, (whole,), whole, EMPTY), brief, request.runtime_class)


_WRONG = (Mistake("metadata.annotations", "there are mistakes"),)

_WRITTEN_ABOUT = placements.KEYS.union(intent.WRITTEN_ABOUT_PODS)


def first_of_each_place(*readers: Iterable[Mistake]) -> Iterator[Mistake]:
    """Yield all mistakes, except at places for which an earlier reader has some."""
    places: set[str] = set()
    for mistakes in readers:
        new = [mistake for mistake in mistakes if mistake.where not in places]
        yield from new
        places |= {mistake.where for mistake in new}


def runtime_class(pod: object) -> str:
    """Return the RuntimeClass of a pod, which may be exempt; empty if it names none."""
    # Needed for every pod before anything else, so without a `Part`.
    name = inner(pod, "spec", "runtimeClassName")
    return name if isinstance(name, str) else ""


def has_pod_level(pod: object) -> bool:
    """Return whether a pod has pod-level resources, which an API server completes."""
    return bool(inner(pod, "spec", "resources"))


def template_of(pod: object, kept: Mapping[str, object]) -> Any:  # noqa: ANN401  whatever was written
    """Return the `kept` fields of a pod, without its placement, which differs within a template."""
    fields: Any = kinds.cut(pod, kept)
    annotations = inner(fields, "metadata", "annotations")
    if isinstance(annotations, dict):
        for key in _WRITTEN_ABOUT & annotations.keys():
            del annotations[key]
    return fields
