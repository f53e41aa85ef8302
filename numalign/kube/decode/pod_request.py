"""
What a pod says by itself that it asks for, whatever its namespace and the policy ask.

The pods of a template say the same, and whoever keeps many of them keeps one value for all (`PodReader`).
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
    """What a pod says by itself.

    `demand` is None if its containers cannot be read, with the mistakes in `unreadable`. How much a kubelet
    gives a pod follows from them, whatever its owner has `written` in annotations.
    """

    demand: Demand | None
    written: IntentAnnotations
    runtime_class: str = ""
    unreadable: tuple[Mistake, ...] = ()

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All that is wrong in every namespace, of each place what was found first."""
        return tuple(first_of_each_place(self.unreadable, self.written.mistakes))


def decode(template: Mapping[str, object], *, most_mistakes: int) -> PodRequest:
    """Return the request in a template; of containers and of annotations so many mistakes are kept each."""
    needs: Demand | None = None
    unreadable: tuple[Mistake, ...] = ()
    try:
        needs = demand.of(pods.pod(template))
    except BadInput as error:
        unreadable = error.mistakes[:most_mistakes]
    # `pods.pod` tells of annotations that are no texts, too.
    written = intent.read(Part(template)["metadata"]["annotations"].text_map())
    written = replace(written, mistakes=written.mistakes[:most_mistakes])
    return PodRequest(needs, written, runtime_class(template), unreadable)


_WRITTEN_ABOUT = placement_records.KEYS.union(intent.WRITTEN_ABOUT_PODS)


def first_of_each_place(*readers: Iterable[Mistake]) -> Iterator[Mistake]:
    """Yield all mistakes, but none of a place of which an earlier reader told some."""
    places: set[str] = set()
    for mistakes in readers:
        new = [mistake for mistake in mistakes if mistake.where not in places]
        yield from new
        places |= {mistake.where for mistake in new}


def runtime_class(pod: object) -> str:
    """Return the runtime class of a pod, which may be exempt; empty if it names none."""
    # Asked of every pod before anything else, so without a `Part`.
    spec = pod.get("spec") if isinstance(pod, dict) else None
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def template_of(pod: object, kept: Mapping[str, object]) -> Any:  # noqa: ANN401  whatever was written
    """What is `kept` of a pod, without where it was placed, which differs between the pods of a template."""
    fields: Any = kinds.cut(pod, kept)
    metadata = fields.get("metadata") if isinstance(fields, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        for key in _WRITTEN_ABOUT & annotations.keys():
            del annotations[key]
    return fields
