"""
The pods in the files that people hand over.

Whoever mends a folder of manifests wants one list of all mistakes, each with its file and document; so
reading never stops at the first. Workloads stand for the pods that they would make; what makes no pods is
counted only. Nothing is left out in silence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from numalign.kube.decode import templates
from numalign.kube.decode.templates import (
    NO_TEMPLATES,
    NOWHERE,
    POD,
    PodTemplate,
    TemplateLocation,
    TemplatePaths,
)
from numalign.kube.files import documents
from numalign.kube.files.documents import Document
from numalign.model.errors import BadInput, Mistake
from numalign.model.pod import Pod

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: a pod that it is or would make, or all that is wrong with it.

    An object with several pod templates gives one for each, at its place in the object; one without any has
    neither a pod nor mistakes. Its pod is, or would be, in `namespace`. `notes` are what its owner should
    know of how it was read. A file that cannot be read at all is one without document and kind.
    """

    file: str
    document: int | None = None
    kind: str = ""
    place: TemplateLocation = NOWHERE
    pod: Pod | None = None
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()
    namespace: str = "default"

    @property
    def template(self) -> str:
        """The place in the object, empty for a pod itself."""
        return self.place.where

    @property
    def counts(self) -> bool:
        """Whether it is a pod, or should be."""
        return self.pod is not None or bool(self.mistakes)

    @property
    def where(self) -> str:
        """The place as people say it."""
        numbered = f"document {self.document}" if self.document is not None else ""
        return ", ".join(filter(None, (self.file, numbered, self.template)))

    def wrong(self, error: BadInput) -> "Manifest":
        """The same object, found broken."""
        return replace(self, mistakes=error.mistakes)

    def wrong_pod(self, error: BadInput) -> "Manifest":
        """The same object, its pod found broken; the mistakes are told with their place in the pod."""
        return replace(self, mistakes=tuple(map(self.place.told, error.mistakes)))

    def told(self) -> tuple[Mistake, ...]:
        """Its mistakes, each with the whole way to its place."""
        if self.document is None:
            return self.mistakes
        name = f" ({self.kind} {self.pod.name})" if self.pod else f" ({self.kind})" if self.kind else ""
        start = f"{self.file}, document {self.document}{name}"
        return tuple(
            replace(each, where=f"{start}: {each.where}" if each.where else start) for each in self.mistakes
        )


def files(given: Iterable[str]) -> tuple[list[str], list[Mistake]]:
    """Every file meant by files and folders, folders searched to the bottom; and what is none."""
    found: list[str] = []
    mistakes: list[Mistake] = []
    for name in given:
        if not name:
            mistakes.append(Mistake("--filename", "is empty: name a file or a folder"))
            continue
        inside = list(_inside(name))
        found += inside
        if not inside:
            mistakes.append(Mistake(name, _no_file(Path(name))))
    return list(dict.fromkeys(found)), mistakes


@dataclass(frozen=True, slots=True)
class Namespace:
    """Where pods are whose manifests name no namespace.

    If somebody `asked` for it, a manifest that names another is a mistake.
    """

    name: str = "default"
    asked: bool = False


DEFAULT = Namespace()


def read(
    file: str,
    *,
    namespace: Namespace = DEFAULT,
    extra: TemplatePaths = NO_TEMPLATES,
    stdin: BinaryIO | None = None,
) -> list[Manifest]:
    """Every object of a file, its pods read, and everything that is wrong in it.

    `extra` are the kinds that the cluster's policy adds.
    """
    shown = "standard input" if file == STDIN else file
    try:
        found = documents.load(file, stdin=stdin)
    except BadInput as error:
        return [Manifest(shown).wrong(error)]
    return [
        manifest
        for number, document in enumerate(found, start=1)
        for each in documents.objects([document])
        for manifest in _manifest(each, Manifest(shown, number, each.kind), extra)
        for manifest in [_placed(manifest, each.raw, namespace)]
    ]


def notes(given: Iterable[Manifest]) -> Iterator[str]:
    """What is to be told of how they were read, and of the objects without pods how many there are."""
    left_out = Counter[str]()
    for each in given:
        yield from (f"{each.where}: {note}" for note in each.notes)
        left_out[each.kind] += not (each.counts or each.notes)
    if total := left_out.total():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()) if count)
        yield f"{total} {'object' if total == 1 else 'objects'} without pods: {kinds}"


def _inside(name: str) -> Iterator[str]:
    path = Path(name)
    if path.is_dir():
        inside = (each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())
        yield from sorted(map(str, inside))
    elif name == STDIN or path.exists():
        yield name


def _no_file(path: Path) -> str:
    if path.is_dir():
        return f"holds no file that ends in {', '.join(sorted(SUFFIXES))}"
    return "there is no such file or folder"


def _manifest(found: Document, manifest: Manifest, extra: TemplatePaths) -> Iterator[Manifest]:
    """The object's pods or mistakes; the object alone for one that makes no pods."""
    if found.trouble:
        yield replace(manifest, mistakes=(found.trouble,))
        return
    try:
        seen = templates.scan(found.raw, templates.group_kind(found.raw), extra=extra)
        made = templates.pod_templates(seen, owner=found.raw)
    except BadInput as error:
        itself = TemplateLocation("", found.raw) if templates.group_kind(found.raw) == POD else NOWHERE
        yield replace(manifest.wrong(error), place=itself)
        return
    notes = (*seen.guesses, *seen.misplaced)
    if notes or not made:
        yield replace(manifest, notes=notes)
    for each in made:
        yield replace(manifest, place=each.place, pod=each.pod, notes=tuple(_unread(each)))


def _unread(template: PodTemplate) -> Iterator[str]:
    """Why what may be a pod was not read as one."""
    yield from (f"not read as a pod: {mistake}" for mistake in template.mistakes[:1])


def _placed(manifest: Manifest, raw: Mapping[str, object], namespace: Namespace) -> Manifest:
    """In the namespace that is meant, unless it names one itself."""
    metadata = raw.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    meant = own if isinstance(own, str) and own else namespace.name
    manifest = replace(manifest, namespace=meant)
    if manifest.pod and not own:
        return replace(manifest, pod=replace(manifest.pod, namespace=meant))
    if manifest.pod and namespace.asked and own != namespace.name:
        message = f'"{own}" is not "{namespace.name}": leave one of them out'
        return replace(manifest, mistakes=(Mistake("metadata.namespace", message),))
    return manifest
