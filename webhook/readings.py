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
from numalign.fleet.recent import Recent
from numalign.rules import intent
from numalign.rules.errors import Mistake
from numalign.rules.intent import Match, NamespaceRules
from webhook.subject import Broken, Said, said

REMEMBERED = 4096
"""Templates whose meaning is kept at hand."""

LONGEST = 4096
"""Bytes of what is read of a pod; few have more, and those are read each time, so that memory is bounded."""

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
        self._meanings: Recent[_Key, _Meaning] = Recent(remembered)
        self._questions: Recent[Question, Question] = Recent(remembered)

    def __len__(self) -> int:
        """How many different pods are remembered."""
        return len(self._meanings)

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


def _written(pod: object) -> bytes | None:
    """All that is read of a pod, in bytes; None for what is too long or too deep to be remembered."""
    told = kinds.cut(pod, _READ)
    if isinstance(told, dict) and isinstance(metadata := told.get("metadata"), dict):
        told["metadata"] = _lasting(metadata)
    try:
        written = orjson.dumps(told)
    except orjson.JSONEncodeError:
        return None
    return written if len(written) <= LONGEST else None


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
