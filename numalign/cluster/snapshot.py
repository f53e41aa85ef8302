"""
A cluster in one file: what kubectl prints of it, made into nodes and namespace rules.

A snapshot is as good as whoever took it, and a door must work with what there is. So one broken object never
stops the rest: it is left out and told of, with its kind, its name and all its mistakes. Only a file that
holds no objects at all is refused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TypeVar

from numalign.cluster import documents, kubelet_config, namespaces, nodes, topologies
from numalign.cluster.documents import BadDocument, Found
from numalign.cluster.kubelet_config import KubeletConfiguration
from numalign.cluster.nodes import BadNode, Facts
from numalign.cluster.parts import Part
from numalign.cluster.topologies import Topology
from numalign.rules.errors import BadInput, BadIntent, Mistake
from numalign.rules.intent import NamespaceRules
from numalign.rules.topology import Node

Read = TypeVar("Read")

CORE = ""


class BadSnapshot(BadInput):
    """Raised when a file is no snapshot: unreadable, cut off, or without a single object."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An object that was left out, and all that is wrong with it."""

    kind: str
    name: str
    mistakes: tuple[Mistake, ...]

    def __str__(self) -> str:
        """Every mistake on its own line, each with the object it is in."""
        return "\n".join(f"{self.kind} {self.name}: {mistake}" for mistake in self.mistakes)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster as it was found.

    `nodes` are those whose topology is known, by name; `unknown` the names of the others. `pods` counts what
    was listed, and `ignored` the objects of kinds that nobody reads, by kind and group (`Deployment.apps`).
    """

    nodes: tuple[Node, ...] = ()
    unknown: tuple[str, ...] = ()
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    pods: int = 0


def load(path: Path | str, *, stdin: BinaryIO | None = None) -> Snapshot:
    """The snapshot in a file, `-` being standard input; raises `BadSnapshot`, which names the file."""
    try:
        return of(documents.load(path, stdin=stdin))
    except BadDocument as error:
        raise BadSnapshot(error.mistakes) from error


def read(data: bytes) -> Snapshot:
    """The snapshot in JSON or YAML, gzip understood; raises `BadSnapshot`."""
    try:
        return of(documents.read(data))
    except BadDocument as error:
        raise BadSnapshot(error.mistakes) from error


def of(found: Iterable[object]) -> Snapshot:
    """The snapshot in objects that are decoded already, lists of them included; never raises."""
    pile = _Pile()
    for each in documents.objects(found):
        pile.add(each)
    return pile.joined()


class _Pile:
    """Objects as they come, by kind and name, until they can be joined."""

    def __init__(self) -> None:
        self.named: set[str] = set()
        self.facts: dict[str, Facts] = {}
        self.topologies: dict[str, Topology] = {}
        self.configurations: dict[str, KubeletConfiguration] = {}
        self.namespaces: dict[str, NamespaceRules] = {}
        self.problems: list[Problem] = []
        self.ignored = Counter[str]()
        self.pods = 0
        self.keepers: Mapping[tuple[str, str], Callable[[Found, str], None]] = {
            (CORE, "Node"): self._node,
            (CORE, "Namespace"): self._namespace,
            (topologies.GROUP, topologies.KIND): partial(_keep, self.topologies, topologies.topology),
            (kubelet_config.GROUP, kubelet_config.KIND): partial(
                _keep, self.configurations, kubelet_config.kubelet_configuration
            ),
        }

    def add(self, found: Found) -> None:
        """Take one object, or tell why not."""
        keep = self.keepers.get((found.group, found.kind))
        if found.trouble:
            self._problem(found, found.where, [found.trouble])
        elif (found.group, found.kind) == (CORE, "Pod"):
            self.pods += 1
        elif keep is None:
            self.ignored[".".join(filter(None, (found.kind, found.group)))] += 1
        else:
            self._try(keep, found)

    def joined(self) -> Snapshot:
        """Everything that was taken, as a cluster."""
        found = [self._join(each, self.configurations.get(name)) for name, each in self.topologies.items()]
        known = sorted(filter(None, found), key=lambda node: node.name)
        self._strays()
        return Snapshot(
            nodes=tuple(known),
            unknown=tuple(sorted(self.named - {node.name for node in known})),
            namespaces=MappingProxyType(self.namespaces),
            problems=tuple(self.problems),
            ignored=MappingProxyType(dict(sorted(self.ignored.items()))),
            pods=self.pods,
        )

    def _try(self, keep: Callable[[Found, str], None], found: Found) -> None:
        name = Part(found.raw)["metadata"]["name"].text()
        try:
            keep(found, name)
        except BadInput as error:
            self._problem(found, name or found.where, error.mistakes)

    def _problem(self, found: Found, name: str, mistakes: Iterable[Mistake]) -> None:
        self.problems.append(Problem(found.kind or "object", name, tuple(mistakes)))

    def _node(self, found: Found, name: str) -> None:
        """A Node whose facts are wrong is there all the same."""
        if name not in self.named:
            self.named.update(filter(None, [name]))
            self.facts[name] = nodes.facts(found.raw)
            return
        raise BadInput([_TWICE])

    def _namespace(self, found: Found, name: str) -> None:
        """Labels that can be read hold, whatever stands beside them."""
        if name in self.namespaces:
            raise BadInput([_TWICE])
        self.namespaces[name], mistakes = namespaces.namespace(found.raw)
        if mistakes:
            raise BadIntent(mistakes)

    def _join(self, topology: Topology, configured: KubeletConfiguration | None) -> Node | None:
        """A node whose kubelet would not start as it was configured is known by its topology."""
        name = topology.name
        try:
            return nodes.join(topology, told=self.facts.get(name), configured=configured)
        except BadNode as error:
            if error.configuration:
                self.problems.append(Problem(kubelet_config.KIND, name, error.configuration))
                return self._join(topology, None)
            self.problems.append(Problem(topologies.KIND, name, error.zones))
            return None

    def _strays(self) -> None:
        """A configuration under a name that no node has is nearly always a misspelt one."""
        for name in sorted(self.configurations.keys() - self.named - self.topologies.keys()):
            mistake = Mistake("metadata.name", "no node in this snapshot has this name")
            self.problems.append(Problem(kubelet_config.KIND, name, (mistake,)))


_TWICE = Mistake("metadata.name", "stands here twice; the first one counts")


def _keep(
    into: dict[str, Read], decode: Callable[[Mapping[str, object]], Read], found: Found, name: str
) -> None:
    if name in into:
        raise BadInput([_TWICE])
    into[name] = decode(found.raw)
