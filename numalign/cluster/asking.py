"""
What a pod asks for, read once for all pods of a template.

A cluster has a hundred thousand pods, made from a few hundred templates, and a scheduler asks about the same
pod again and again. To read one takes a hundred times as long as to see that it says the same as another, so
what was read is remembered by what was written.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from weakref import WeakValueDictionary

import orjson

from numalign.cluster import kinds, pods, records
from numalign.cluster.parts import Part
from numalign.fleet.recent import Cache, Recent, digest
from numalign.rules import demand, intent
from numalign.rules.demand import Demand
from numalign.rules.errors import BadInput, Mistake
from numalign.rules.intent import Intent

REMEMBERED = 1024
"""Kinds of pods whose meaning is kept at hand."""

Raw = Mapping[str, object]
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Asking:
    """What a pod asks for; `intent` is None where its annotations say nothing."""

    demand: Demand
    intent: Intent | None


@dataclass(frozen=True, slots=True)
class Unclear:
    """Every mistake in a pod; `demand` is None unless all of them stand in its annotations.

    How much a kubelet gives a pod follows from its containers, whatever its owner wrote beside them.
    """

    mistakes: tuple[Mistake, ...]
    demand: Demand | None = None


Meaning: TypeAlias = Asking | Unclear
"""What was read of a pod."""


class Askings:
    """Reads what pods ask for. Pods that ask for the same share one value, as long as anybody holds it.

    What was read is known again by a digest of what was written: a pod of a megabyte, which comes again with
    every change of its status, is read as rarely as any.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._meanings: Recent[bytes, Meaning] = Recent(remembered)
        self._living: WeakValueDictionary[tuple[Demand, Intent | None], Asking] = WeakValueDictionary()

    def __len__(self) -> int:
        """How many different meanings are known."""
        return len(self._living)

    @property
    def cache(self) -> Cache:
        """What was read most recently."""
        return self._meanings

    def of(self, raw: object) -> Asking | None:
        """What a v1 Pod asks for.

        None for what an API server would not have let in, or a newer one lets in.
        """
        meaning = self.meaning(raw)
        return meaning if isinstance(meaning, Asking) else None

    def read(self, raw: object) -> Asking:
        """As `of`, for whoever has to answer; raises `BadInput` with every mistake."""
        meaning = self.meaning(raw)
        if isinstance(meaning, Asking):
            return meaning
        raise BadInput(meaning.mistakes)

    def meaning(self, raw: object) -> Meaning:
        """As `read`, for whoever makes use of what is clear."""
        told = _told(raw)
        try:
            written = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            # A number or a nesting that no API server stores: rare, and not worth to be remembered.
            return self._understood(told)
        return self._meanings.get(digest(written), lambda: self._understood(told))

    def _understood(self, told: Raw) -> Meaning:
        read = _read(told)
        if isinstance(read, Unclear):
            return read
        return self._living.setdefault((read.demand, read.intent), read)


def _told(raw: object) -> dict[str, object]:
    """What of a pod says what it asks for: the same for all pods of a template."""
    whole = Part(kinds.cut(raw, kinds.ASKED))
    annotations = whole["metadata"]["annotations"].value
    return {
        "metadata": {"annotations": _without(annotations, records.KEYS)},
        "spec": whole["spec"].value,
    }


def _without(value: object, keys: AbstractSet[str]) -> object:
    """An object without some of its members; what is none stays what it is."""
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key not in keys}


def _read(told: Raw) -> Meaning:
    """With every mistake of containers and annotations alike."""
    asked, unreadable = _attempt(lambda: demand.of(pods.pod(told)))
    stated, unclear = _attempt(lambda: intent.parse(_texts(Part(told)["metadata"]["annotations"])))
    if asked is None or unclear:
        return Unclear((*unreadable, *unclear), asked)
    return Asking(asked, stated)


def _texts(annotations: Part) -> Mapping[str, str]:
    """Those that are texts; who reads the pod tells of the others."""
    return {key: text for key, part in annotations.members() if isinstance(text := part.value, str)}


def _attempt(read: Callable[[], Read]) -> tuple[Read | None, tuple[Mistake, ...]]:
    """What a reader makes of the pod, or its mistakes, so that the next reader can tell its own."""
    try:
        return read(), ()
    except BadInput as error:
        return None, error.mistakes
