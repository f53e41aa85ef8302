"""
Pasted or uploaded manifests of what-if questions: one pod, or one object that creates pods.

They come from a browser, so they are untrusted: their bytes are limited before parsing, their aliases during
it, and every mistake is reported with its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.kube.decode import templates
from numalign.kube.decode.parts import Part, inner
from numalign.kube.decode.templates import NO_TEMPLATES, PodTemplate, TemplatePaths
from numalign.kube.files import documents
from numalign.model.errors import BadInput, Mistake

MOST_BYTES = 2**18
"""The limit of a text; an API server accepts 1.5 MiB, and pods written by people are far below this."""

MOST_TEMPLATES = 16
"""Most templates of one object; each is evaluated on every node."""

LARGEST_COUNT = 2**31 - 1
"""The largest number of replicas, which are int32."""

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


def read(text: bytes, *, extra: TemplatePaths = NO_TEMPLATES) -> Pasted:
    """Return the one object in a text that creates pods.

    Objects that create no pods are ignored. `extra` are kinds of workloads that the policy adds. Raises
    `BadInput` with all mistakes, and for a text with no such object or with several.
    """
    every = [*documents.objects(documents.read(text, most=MOST_BYTES))]
    if troubles := [document.trouble for document in every if document.trouble]:
        raise BadInput(troubles)
    makers, unread = list[Pasted](), list[str]()
    for document in every:
        raw = document.raw
        look = templates.scan(raw, templates.group_kind(raw), extra=extra)
        made = templates.pod_templates(look, owner=raw)
        readable = tuple(template for template in made if template.pod)
        broken = [
            f"{template.where}: cannot be read as a pod: {template.mistakes[0]}"
            for template in made
            if template.mistakes
        ]
        if not readable:
            unread += [*look.guesses, *broken]
            continue
        if len(readable) > MOST_TEMPLATES:
            wrong = f"has {len(readable)} pod templates: at most {MOST_TEMPLATES} are allowed"
            raise BadInput([Mistake("", wrong)])
        metadata = Part(raw)["metadata"]
        name = metadata["name"].text() or metadata["generateName"].text()
        notes = (*look.guesses, *look.misplaced, *broken)
        namespace = metadata["namespace"].text() or "default"
        makers.append(Pasted(document.kind, namespace, name, readable, _replicas(raw), notes))
    if len(makers) > 1:
        names = [f"{made.kind} {made.name}" for made in makers[:_MOST_NAMED]]
        listed = ", ".join([*names, *(["more"] if len(makers) > _MOST_NAMED else [])])
        raise BadInput(
            [Mistake("", f"has {len(makers)} objects that create pods, {listed}: paste one of them")]
        )
    if not makers:
        kinds = ", ".join(sorted({document.kind for document in every})[:_MOST_NAMED])
        nothing = f"creates no pods: it contains {kinds}, and no pod or pod template"
        raise BadInput(Mistake("", note) for note in unread or [nothing])
    return makers[0]


def _replicas(raw: Mapping[str, object]) -> int:
    """Return how many pods are created from a template at a time; 1 if the object does not specify it."""
    for count in (inner(raw.get("spec"), name) for name in _COUNTS):
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= LARGEST_COUNT:
            return count
    return 1
