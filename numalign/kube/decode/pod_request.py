"""
The request of a pod by itself, without its namespace and the policy.

The pods of a template are equal, and they share one value (`PodReader`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numalign.kube import kinds
from numalign.kube.decode import placement_records, pods
from numalign.kube.decode.parts import Part
from numalign.model import demand, intent
from numalign.model.demand import Demand
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import IntentAnnotations


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

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All mistakes that do not depend on the namespace, for each place those found first."""
        return tuple(first_of_each_place(self.unreadable, self.written.mistakes))


def decode(template: Mapping[str, object], *, most_mistakes: int) -> PodRequest:
    """Return the request in a template, with limited mistakes of containers and of annotations."""
    needs: Demand | None = None
    unreadable: tuple[Mistake, ...] = ()
    try:
        needs = demand.of(pods.pod(template))
    except BadInput as error:
        unreadable = error.mistakes[:most_mistakes]
    # `pods.pod` also reports annotations that are not texts.
    written = intent.read(Part(template)["metadata"]["annotations"].text_map())
    written = replace(written, mistakes=written.mistakes[:most_mistakes])
    return PodRequest(needs, written, runtime_class(template), unreadable)


_WRITTEN_ABOUT = placement_records.KEYS.union(intent.WRITTEN_ABOUT_PODS)


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
    spec = pod.get("spec") if isinstance(pod, dict) else None
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def template_of(pod: object, kept: Mapping[str, object]) -> Any:  # noqa: ANN401  whatever was written
    """Return the `kept` fields of a pod, without its placement, which differs within a template."""
    fields: Any = kinds.cut(pod, kept)
    metadata = fields.get("metadata") if isinstance(fields, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        for key in _WRITTEN_ABOUT & annotations.keys():
            del annotations[key]
    return fields
