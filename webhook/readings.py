"""
What pods say, read once for all pods of a template.

A controller sends the same pod a thousand times under a thousand names, and a pod is sent to both endpoints.
To read it takes many times as long as to see that it was read before, so what was found is remembered by
everything in it that anybody reads, and only by that.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import orjson

from numalign.cluster import kinds
from numalign.fleet import Question
from numalign.fleet.recent import Caches, Recent, digest
from numalign.fleet.weight import weight
from numalign.rules import intent
from numalign.rules.errors import Mistake
from numalign.rules.intent import Match, NamespaceRules
from webhook.subject import Broken, Said, said

REMEMBERED = 1024
"""Templates whose meaning is kept at hand."""

_Key = tuple[bytes, NamespaceRules, Match]
_Meaning = Said | tuple[Mistake, ...] | None

_NAMES = ("name", "generateName", "namespace")
_OURS = (intent.PREFIX, intent.VOLCANO_POLICY)
_WHOLE = True
_READ: Mapping[str, object] = MappingProxyType(
    {
        "metadata": {
            **dict.fromkeys((*_NAMES, "annotations"), _WHOLE),
            "ownerReferences": dict.fromkeys(("kind", "apiVersion", "controller"), _WHOLE),
        },
        "spec": {**kinds.SPEC, "nodeName": _WHOLE, "affinity": {"nodeAffinity": _WHOLE}},
    }
)


class Readings:
    """Reads pods as `subject.said` does, and remembers what was said most recently."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._meanings: Recent[_Key, _Meaning] = Recent(remembered, weigh=_weight)
        self._questions: Recent[Question, Question] = Recent(remembered, weigh=_weight_of_question)

    def __len__(self) -> int:
        """How many different pods are remembered."""
        return len(self._meanings)

    def caches(self) -> Caches:
        """What is remembered of pods."""
        return {"readings": self._meanings, "questions": self._questions}

    def said(self, pod: object, rules: NamespaceRules, match: Match) -> Said | None:
        """As `subject.said`."""
        written = _written(pod)
        if written is None:
            return said(pod, rules, match)
        meaning = self._meanings.get((written, rules, match), lambda: self._read(pod, rules, match))
        if isinstance(meaning, tuple):
            raise Broken(meaning)
        return meaning

    def _read(self, pod: object, rules: NamespaceRules, match: Match) -> _Meaning:
        try:
            found = said(pod, rules, match)
        except Broken as error:
            return error.mistakes
        if found is None:
            return None
        # What is remembered by question is found sooner if equal questions are the same one.
        question = self._questions.get(found.question, lambda: found.question)
        return replace(found, question=question)


def _weight(_key: _Key, meaning: _Meaning) -> int:
    """A question is shared by those that mean the same, and weighed once."""
    if isinstance(meaning, Said):
        return meaning.question.weight + weight(meaning.pin)
    return weight(meaning)


def _weight_of_question(question: Question, _same: Question) -> int:
    return question.weight


def _written(pod: object) -> bytes | None:
    """A digest of all that is read of a pod; None for what is too deep to be remembered."""
    told = kinds.cut(pod, _READ)
    if isinstance(told, dict) and isinstance(metadata := told.get("metadata"), dict):
        told["metadata"] = _lasting(metadata)
    try:
        return digest(orjson.dumps(told))
    except orjson.JSONEncodeError:
        return None


def _lasting(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """What of the metadata is the same for all pods of a template: no names, no words of others.

    What is no text stays, for it is a mistake wherever it stands.
    """
    kept = {key: value for key, value in metadata.items() if key not in _NAMES or not isinstance(value, str)}
    annotations = kept.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {
            key: text
            for key, text in annotations.items()
            if not isinstance(text, str) or key.startswith(_OURS)
        }
    return kept
