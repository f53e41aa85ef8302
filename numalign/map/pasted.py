"""
Pasted or uploaded manifests of what-if questions: one pod, or one object that creates pods.

They come from a browser, so they are untrusted: their bytes are limited before parsing, their aliases during
it, and every mistake is reported with its path.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from numalign.kube.decode import templates
from numalign.kube.decode.parts import Part, inner
from numalign.kube.decode.templates import NO_TEMPLATES, PodTemplate, TemplatePaths, TemplateScan
from numalign.kube.files import documents
from numalign.kube.files.documents import Document
from numalign.model.errors import BadInput, Mistake

MOST_BYTES = 2**18
"""The limit of a text; an API server accepts 1.5 MiB, and pods written by people are far below this."""

MOST_TEMPLATES = 16
"""Most templates of one object; each is evaluated on every node."""

LARGEST_COUNT = 2**31 - 1
"""The largest number of replicas, which are int32."""

DEFAULT_NAMESPACE = "default"

_MOST_NAMED = 4
_COUNTS = ("replicas", "parallelism")
"""The fields below `spec` with the number of pods that a workload creates at a time."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """An object that creates pods, and its templates; a pod is its own template.

    `replicas` is how many pods it creates from a template at a time, 1 if it does not specify that. `notes`
    explain to its owner how it was read.
    """

    kind: str
    namespace: str
    name: str
    templates: tuple[PodTemplate, ...]
    replicas: int = 1
    notes: tuple[str, ...] = ()


def read(text: bytes, *, namespace: str = DEFAULT_NAMESPACE, extra: TemplatePaths = NO_TEMPLATES) -> Pasted:
    """Return the one object in a text that creates pods, in `namespace` if it has none.

    Objects that create no pods are ignored. `extra` are kinds of workloads that the policy adds. Raises
    `BadInput` with all mistakes, and for a text with no such object or with several.
    """
    every = [*documents.objects(documents.read(text, most=MOST_BYTES))]
    if troubles := [document.trouble for document in every if document.trouble]:
        raise BadInput(troubles)
    makers = [made for document in every if (made := _read(document, namespace, extra))]
    if len(makers) > 1:
        listed = f"{len(makers)} objects that create pods, {_named(makers)}"
        raise BadInput([Mistake("", f"has {listed}: paste one of them")])
    if not makers:
        if told := [note for document in every for note in _unread(document, extra)]:
            raise BadInput(Mistake("", note) for note in told)
        kinds = ", ".join(sorted({document.kind for document in every})[:_MOST_NAMED])
        raise BadInput([Mistake("", f"creates no pods: it contains {kinds}, and no pod or pod template")])
    return makers[0]


def _read(document: Document, namespace: str, extra: TemplatePaths) -> Pasted | None:
    """Return an object that creates pods; None for any other. Raises `BadInput` with its mistakes."""
    raw, (look, made) = document.raw, _scan(document, extra)
    readable = tuple(template for template in made if template.pod)
    if not readable:
        return None
    if len(readable) > MOST_TEMPLATES:
        wrong = f"has {len(readable)} pod templates: at most {MOST_TEMPLATES} are allowed"
        raise BadInput([Mistake("", wrong)])
    metadata = Part(raw)["metadata"]
    return Pasted(
        document.kind,
        metadata["namespace"].text() or namespace,
        metadata["name"].text() or metadata["generateName"].text(),
        readable,
        _replicas(raw),
        tuple(_notes(look.guesses, look.misplaced, made)),
    )


def _scan(document: Document, extra: TemplatePaths) -> tuple[TemplateScan, tuple[PodTemplate, ...]]:
    look = templates.scan(document.raw, templates.group_kind(document.raw), extra=extra)
    return look, templates.pod_templates(look, owner=document.raw)


def _unread(document: Document, extra: TemplatePaths) -> Iterator[str]:
    """Yield why none of the pods that an object creates can be read, if it may create any."""
    look, made = _scan(document, extra)
    return _notes(look.guesses, (), made)


def _replicas(raw: Mapping[str, object]) -> int:
    """Return how many pods are created from a template at a time; 1 if the object does not specify it."""
    counts = (inner(raw.get("spec"), name) for name in _COUNTS)
    return next((count for count in counts if _is_count(count)), 1)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_COUNT


def _notes(guesses: Sequence[str], misplaced: Sequence[str], made: Sequence[PodTemplate]) -> Iterator[str]:
    yield from guesses
    yield from misplaced
    for template in made:
        if template.mistakes:
            yield f"{template.where}: cannot be read as a pod: {template.mistakes[0]}"


def _named(makers: Sequence[Pasted]) -> str:
    names = [f"{made.kind} {made.name}" for made in makers[:_MOST_NAMED]]
    return ", ".join([*names, *(["more"] if len(makers) > _MOST_NAMED else [])])
