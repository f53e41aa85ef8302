"""
The pods in the files that people hand over.

Whoever mends a folder of manifests wants one list of all mistakes, each with its file and document; so
reading never stops at the first. Workloads stand for the pods that they would make; what makes no pods is
counted only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from numalign.cluster import documents, templates
from numalign.cluster.documents import Found
from numalign.rules.errors import BadInput, Mistake
from numalign.rules.pod import Pod

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file: a pod that it is or would make, or all that is wrong with it.

    An object with several pod templates gives one for each; `template` is its place in the object, empty for
    a pod itself. A file that cannot be read at all is one without document and kind.
    """

    file: str
    document: int | None = None
    kind: str = ""
    template: str = ""
    pod: Pod | None = None
    mistakes: tuple[Mistake, ...] = ()

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
        within = (each.under(self.template) if self.template else each for each in error.mistakes)
        return replace(self, mistakes=tuple(within))

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


def read(file: str, *, namespace: Namespace = DEFAULT, stdin: BinaryIO | None = None) -> list[Manifest]:
    """Every pod of a file, and everything that is wrong in it."""
    shown = "standard input" if file == STDIN else file
    try:
        found = documents.load(file, stdin=stdin)
    except BadInput as error:
        return [Manifest(shown).wrong(error)]
    return [
        manifest
        for number, document in enumerate(found, start=1)
        for each in documents.objects([document])
        for manifest in _manifest(each, Manifest(shown, number, each.kind), namespace)
    ]


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


def _manifest(found: Found, manifest: Manifest, namespace: Namespace) -> Iterator[Manifest]:
    """The object's pods or mistakes; nothing for a kind that makes no pods."""
    if found.trouble:
        yield replace(manifest, mistakes=(found.trouble,))
        return
    try:
        made = templates.pods_of(found.raw)
    except BadInput as error:
        yield manifest.wrong(error)
        return
    for each in made:
        yield _placed(replace(manifest, template=each.where, pod=each.pod), found.raw, namespace)


def _placed(manifest: Manifest, raw: Mapping[str, object], namespace: Namespace) -> Manifest:
    """In the namespace that is meant, unless it names one itself."""
    metadata = raw.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    if manifest.pod and not own:
        return replace(manifest, pod=replace(manifest.pod, namespace=namespace.name))
    if manifest.pod and namespace.asked and own != namespace.name:
        message = f'"{own}" is not "{namespace.name}": leave one of them out'
        return replace(manifest, mistakes=(Mistake("metadata.namespace", message),))
    return manifest
