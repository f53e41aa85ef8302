"""
What a pod says by itself that it asks for, read once for all pods of a template.

A cluster has a hundred thousand pods, made from a few hundred templates, and a scheduler asks about the same
pod again and again. To read one takes a hundred times as long as to see that it says the same as another, so
what was read is remembered by what was written. What its namespace asks is no part of it, for that may change
while the pod runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import orjson

from numalign.kube import kinds
from numalign.kube.decode import placement_records, pods
from numalign.kube.decode.parts import Part
from numalign.lru import LRU, Cache, digest
from numalign.model import demand, intent
from numalign.model.demand import Demand
from numalign.model.errors import MOST_MISTAKES, BadInput, Mistake
from numalign.model.intent import IntentAnnotations

REMEMBERED = 1024
"""Kinds of pods whose meaning is kept at hand."""

Raw = Mapping[str, object]
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodRequest:
    """What a pod says by itself.

    `demand` is None if its containers cannot be read, which the `unreadable` mistakes tell of. How much a
    kubelet gives a pod follows from them, whatever its owner has `written` beside them.
    """

    demand: Demand | None
    written: IntentAnnotations
    runtime_class: str = ""
    unreadable: tuple[Mistake, ...] = ()

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """All that is wrong in every namespace."""
        return tuple(each_place_once(self.unreadable, self.written.mistakes))


class PodRequestDecoder:
    """Reads what pods ask for. Pods that ask for the same share one value, as long as anybody holds it.

    What was read is known again by a digest of what was written: a pod of a megabyte, which comes again with
    every change of its status, is read as rarely as any. Of containers and of annotations `most_mistakes`
    are kept each.
    """

    def __init__(self, remembered: int = REMEMBERED, *, most_mistakes: int = MOST_MISTAKES + 1) -> None:
        self._read: LRU[bytes, PodRequest] = LRU(remembered)
        self._living: WeakValueDictionary[_Meaning, PodRequest] = WeakValueDictionary()
        self._most_mistakes = most_mistakes

    def __len__(self) -> int:
        """How many different meanings are known."""
        return len(self._living)

    @property
    def cache(self) -> Cache:
        """What was read most recently."""
        return self._read

    def of(self, raw: object) -> PodRequest:
        """What a v1 Pod asks for, with all that an API server would not have let in."""
        asked = told(raw, kinds.ASKED)
        try:
            written = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            # A number or a nesting that no API server stores: rare, and not worth to be remembered.
            return self._understood(asked)
        return self._read.get(digest(written), lambda: self._understood(asked))

    def _understood(self, asked: Raw) -> PodRequest:
        read = _read(asked, most_mistakes=self._most_mistakes)
        meaning = (read.demand, read.written, read.runtime_class, read.unreadable)
        return self._living.setdefault(meaning, read)


_Meaning: TypeAlias = tuple[Demand | None, IntentAnnotations, str, tuple[Mistake, ...]]


def each_place_once(*readers: Iterable[Mistake]) -> Iterator[Mistake]:
    """All mistakes; of a place that an earlier reader spoke of, only what that one said."""
    places: set[str] = set()
    for mistakes in readers:
        once = [mistake for mistake in mistakes if mistake.where not in places]
        yield from once
        places |= {mistake.where for mistake in once}


def runtime_class(pod: object) -> str:
    """The runtime class of a pod, which may be exempt; empty, if it names none."""
    # This is asked of every pod, before anything else.
    spec = pod.get("spec") if isinstance(pod, dict) else None
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def told(raw: object, kept: Mapping[str, object]) -> Any:  # noqa: ANN401  whatever was written
    """What is kept of a pod, without what differs between the pods of a template: where each was placed."""
    found: Any = kinds.cut(raw, kept)
    metadata = found.get("metadata") if isinstance(found, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        for key in placement_records.KEYS & annotations.keys():
            del annotations[key]
    return found


def _read(asked: Raw, *, most_mistakes: int) -> PodRequest:
    needs, unreadable = _attempt(lambda: demand.of(pods.pod(asked)))
    # Who reads the pod tells of annotations that are no texts, too.
    written = intent.read(Part(asked)["metadata"]["annotations"].texts())
    return PodRequest(
        needs,
        replace(written, mistakes=written.mistakes[:most_mistakes]),
        runtime_class(asked),
        unreadable[:most_mistakes],
    )


def _attempt(read: Callable[[], Read]) -> tuple[Read | None, tuple[Mistake, ...]]:
    """What a reader makes of the pod, or its mistakes, so that the next reader can tell its own."""
    try:
        return read(), ()
    except BadInput as error:
        return None, error.mistakes
