"""
Read the pods in manifests.

All mistakes in a folder of manifests are listed together, each with its file and document, so reading never
stops at the first. A workload counts as the pods that it would create; objects that create no pods are only
counted. Nothing is skipped silently.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kubectl_numa.typed_names import TypedName
from numalign.kube.decode import templates
from numalign.kube.decode.parts import inner
from numalign.kube.decode.templates import NO_TEMPLATES, NOWHERE, POD, TemplateLocation, TemplatePaths
from numalign.kube.files import documents, urls
from numalign.kube.files.documents import Document
from numalign.model.errors import BadInput, Mistake
from numalign.model.pod import Pod

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"
STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: a pod that it is or would create, or all its mistakes.

    An object with several pod templates yields one for each, with its location in the object; an object
    without any has neither a pod nor mistakes. Its pod is, or would be, in `namespace`, which is empty for an
    object without one. `name` is that of the object, if it has one. `warnings` are for its owner, about how
    it was read; of several pods, the first has those of the object. A file that cannot be read at all yields
    one without document and kind.
    """

    file: str
    document: int | None = None
    kind: str = ""
    name: str = ""
    place: TemplateLocation = NOWHERE
    pod: Pod | None = None
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[str, ...] = ()
    namespace: str = "default"

    @property
    def pod_name(self) -> tuple[str, str]:
        """Return namespace and name of the pod; those of the object if it is not known or has no name."""
        return (self.pod.namespace, self.pod.name or self.name) if self.pod else (self.namespace, self.name)

    @property
    def counts(self) -> bool:
        """Return whether it is a pod, should be, or may create some."""
        return self.pod is not None or bool(self.mistakes or self.warnings)

    @property
    def where(self) -> str:
        """Return the location in readable form."""
        numbered = f"document {self.document}" if self.document is not None else ""
        return ", ".join(filter(None, (self.file, numbered, self.place.where)))

    def wrong_pod(self, error: BadInput) -> "Manifest":
        """Return the same object with an invalid pod; the mistakes get their location in the object."""
        return replace(self, mistakes=tuple(map(self.place.in_object, error.mistakes)))

    def located_mistakes(self) -> tuple[Mistake, ...]:
        """Return its mistakes, each with its file and document."""
        if self.document is None:
            return self.mistakes
        named = " ".join(filter(None, (self.kind, self.name)))
        start = f"{self.file}, document {self.document}" + (f" ({named})" if named else "")
        return tuple(
            replace(mistake, where=f"{start}: {mistake.where}" if mistake.where else start)
            for mistake in self.mistakes
        )


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of pods whose manifests name none.

    If the user specified it (`asked`), a manifest that names another one is a mistake.
    """

    name: str = "default"
    asked: bool = False


DEFAULT = Namespace()


def files(names: Iterable[str]) -> tuple[list[str], list[Mistake]]:
    """Return all files and URLs, with folders searched recursively, and mistakes for invalid names."""
    paths: dict[str, None] = {}
    mistakes: list[Mistake] = []
    for name in names:
        path = Path(name)
        if not name:
            mistakes.append(Mistake("--filename", "is empty: specify a file, a folder or a URL"))
        elif path.is_dir():
            inside = sorted(
                str(file) for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file()
            )
            paths.update(dict.fromkeys(inside))
            if not inside:
                mistakes.append(Mistake(name, f"contains no {', '.join(sorted(SUFFIXES))} files"))
        elif name == STDIN or urls.is_url(name) or path.exists():
            paths[name] = None
        else:
            mistakes.append(Mistake(name, "no such file or folder"))
    return list(paths), mistakes


def read(
    file: str,
    *,
    namespace: Namespace = DEFAULT,
    extra: TemplatePaths = NO_TEMPLATES,
    stdin: BinaryIO | None = None,
) -> list[Manifest]:
    """Return every object of a file with its pods, and all mistakes in it.

    `extra` are the kinds that the cluster's policy adds.
    """
    is_url = urls.is_url(file)
    name = STANDARD_INPUT if file == STDIN else urls.shown(file) if is_url else file
    try:
        if is_url:
            values = documents.read(urls.read(file), most=urls.MOST_BYTES)
        else:
            values = documents.load(file, stdin=stdin)
    except BadInput as error:
        # Of what a URL answers, only its contents are located in no file yet.
        unlocated = is_url and isinstance(error, documents.BadDocument)
        mistakes = (mistake.under(name) if unlocated else mistake for mistake in error.mistakes)
        return [Manifest(name, mistakes=tuple(mistakes))]
    return [
        manifest
        for number, value in enumerate(values, start=1)
        for document in documents.objects([value])
        for manifest in _manifests(document, Manifest(name, number, document.kind), namespace, extra)
    ]


def of_object(
    raw: object, named: TypedName, *, namespace: Namespace = DEFAULT, extra: TemplatePaths = NO_TEMPLATES
) -> list[Manifest]:
    """Return the pods of an object in a cluster, as `read` does for a file; its name replaces the file's."""
    return [
        manifest
        for document in documents.objects([raw])
        for manifest in _manifests(document, Manifest(str(named), kind=document.kind), namespace, extra)
    ]


def notes(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield how many objects without pods there are, if any, by kind."""
    left_out = Counter(manifest.kind for manifest in manifests if not manifest.counts)
    if total := left_out.total():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        yield f"{total} {'object' if total == 1 else 'objects'} without pods: {kinds}"


def _manifests(
    document: Document, blank: Manifest, namespace: Namespace, extra: TemplatePaths
) -> Iterator[Manifest]:
    """Yield the object's pods or mistakes; the object alone if it creates no pods."""
    metadata = document.raw.get("metadata")
    values = (inner(metadata, key) for key in ("namespace", "name", "generateName"))
    own, name, prefix = (value if isinstance(value, str) else "" for value in values)
    scoped = (document.group, document.kind) in templates.CLUSTER_SCOPED
    home = "" if scoped else own or namespace.name
    blank = replace(blank, namespace=home, name=name or prefix)
    if document.trouble:
        yield replace(blank, mistakes=(document.trouble,))
        return
    try:
        look = templates.scan(document.raw, templates.group_kind(document.raw), extra=extra)
        pods = templates.pod_templates(look, owner=document.raw)
    except BadInput as error:
        place = TemplateLocation("", document.raw) if templates.group_kind(document.raw) == POD else NOWHERE
        yield replace(blank, place=place, mistakes=error.mistakes)
        return
    of_object = (*look.guesses, *look.misplaced)
    if not pods:
        yield replace(blank, warnings=of_object)
    for template in pods:
        pod, mistakes = template.pod, tuple[Mistake, ...]()
        if pod and (scoped or not own):
            pod = replace(pod, namespace=home)
        elif pod and namespace.asked and own != namespace.name:
            message = f'"{own}" differs from -n {namespace.name}: remove one of them'
            mistakes = (Mistake("metadata.namespace", message),)
        unread = tuple(f"not read as a pod: {mistake}" for mistake in template.mistakes[:1])
        warnings, of_object = (*of_object, *unread), ()
        yield replace(blank, place=template.place, pod=pod, mistakes=mistakes, warnings=warnings)
