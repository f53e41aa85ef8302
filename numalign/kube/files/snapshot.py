"""
A cluster in one file: kubectl's output, decoded into nodes and namespace rules.

A snapshot may be incomplete, and a program must work with what it contains. So a file is rejected only if it
contains no objects at all, or none of a cluster; invalid objects in it are reported, and the rest counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from numalign.kube.cluster import Cluster, ProblemsChanged, Settled
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import device_classes, kubelet_config, nrt, numatopologies, server_version, shapes
from numalign.kube.decode.parts import Part
from numalign.kube.files import documents
from numalign.kube.files.documents import BadDocument, Document
from numalign.kube.kinds import PODS, PODS_IN_FILES, Object
from numalign.kube.stores import Problem, Store
from numalign.model.errors import BadInput, Mistake
from numalign.model.steps import finished
from numalign.shapes import ShapeHistory

CORE = ""


class BadSnapshot(BadInput):
    """Raised for a file that is not a snapshot: unreadable, truncated, or without objects of a cluster."""


def load(
    path: Path | str, *, stdin: BinaryIO | None = None, shape_history: ShapeHistory | None = None
) -> Cluster:
    """Return the cluster in a file, or in standard input (`-`); raise `BadSnapshot` with the file's name."""
    where = "standard input" if str(path) == "-" else str(path)
    try:
        return build(documents.stream(path, stdin=stdin), shape_history=shape_history).checked(where)
    except BadDocument as error:
        raise BadSnapshot(error.mistakes) from error


def of(
    values: Iterable[object], *, shape_history: ShapeHistory | None = None, where: str = "snapshot"
) -> Cluster:
    """Return the cluster of decoded objects, which are from `where`; raise `BadSnapshot`."""
    return build(documents.objects(values), shape_history=shape_history).checked(where)


def build(
    objects: Iterable[Document],
    *,
    pods: Callable[[Object], None] | None = None,
    shape_history: ShapeHistory | None = None,
) -> "SnapshotBuilder":
    """Return the objects of a file; its `cluster` is that of `of`.

    The `shape_history` knows what was there before. Each pod with a name is passed to `pods`, as an API
    server's pods are to a sink; without `pods`, pods are counted.
    """
    builder = SnapshotBuilder(ClusterState(shape_history=shape_history), pods)
    for document in objects:
        builder.add(document)
    return builder


class SnapshotBuilder:
    """The objects of a file, and the mistakes that only files can have."""

    def __init__(self, state: ClusterState, take: Callable[[Object], None] | None) -> None:
        self.state = state
        self._take = take
        self._problems: list[Problem] = []
        self._ignored = Counter[str]()
        self._pods = self._bound_pods = self._kept = 0
        self._stores: Mapping[tuple[str, str], Store[Any]] = {
            (CORE, "Node"): state.nodes,
            (CORE, "Namespace"): state.namespaces,
            (nrt.GROUP, nrt.KIND): state.topologies,
            (numatopologies.GROUP, numatopologies.KIND): state.numatopologies,
            (device_classes.GROUP, device_classes.KIND): state.device_classes,
            (kubelet_config.GROUP, kubelet_config.KIND): state.configurations,
            (server_version.GROUP, server_version.KIND): state.server_version,
        }

    def add(self, document: Document) -> None:
        """Add one object, or note why not."""
        sort, name = (document.group, document.kind), Part(document.raw)["metadata"]["name"].text()
        store = self._stores.get(sort)
        if (*sort, name) == (CORE, shapes.KIND, shapes.NAME):
            store = self.state.remembered_shapes
        if document.trouble:
            self._problem(document, document.where, document.trouble)
        elif sort == (CORE, PODS.kind):
            self._add_pod(document, name)
        elif store is None:
            self._ignored[".".join(filter(None, reversed(sort)))] += 1
        else:
            self._kept += 1
            if not name:
                self._nameless(document)
            elif name in store:
                twice = Mistake("metadata.name", "appears twice; the first one is used")
                self._problem(document, name, twice)
            else:
                store.put(name, document.raw)

    def _add_pod(self, document: Document, name: str) -> None:
        pod = Part(document.raw)
        self._pods += 1
        self._bound_pods += bool(pod["spec"]["nodeName"].text())
        namespace = pod["metadata"]["namespace"].text() or "default"
        if self._take is None:
            self.state.pod_counts.put((namespace, name), document.raw)
        elif not name:
            self._nameless(document)
        else:
            described = PODS_IN_FILES.described(document.raw)
            described["metadata"]["namespace"] = namespace
            self._take(described)

    def why_no_snapshot(self) -> str | None:
        """Return why the objects are not a snapshot of a cluster; None if they are, or if there are none."""
        held = Counter({**self._ignored, PODS.kind: self._pods})
        if self._kept or not held.total():
            return None
        kinds = sorted((+held).items(), key=lambda counted: (-counted[1], counted[0]))
        shown = ", ".join(f"{count} {kind}" for kind, count in kinds[:_MOST_NAMED])
        unnamed = len(kinds) - _MOST_NAMED
        more = f" and {unnamed} more {'kind' if unnamed == 1 else 'kinds'}" if unnamed > 0 else ""
        return f"is not a cluster snapshot: it contains {shown}{more}, {_EXPECTED}"

    def checked(self, where: str) -> Cluster:
        """Return the cluster; raise `BadSnapshot`, naming the source, if no object is a cluster's."""
        if reason := self.why_no_snapshot():
            raise BadSnapshot([Mistake(where, reason)])
        return self.cluster()

    def cluster(self) -> Cluster:
        """Return the cluster of all added objects."""
        finished(self.state.publish())
        cluster = self.state.cluster
        cluster.apply(ProblemsChanged(_FILE, (), tuple(self._problems)))
        cluster.apply(Settled(self._bound_pods, MappingProxyType(dict(sorted(self._ignored.items())))))
        return cluster

    def _nameless(self, document: Document) -> None:
        name = Part(document.raw)["metadata"]["name"]
        name.required_text()
        self._problem(document, document.where, *name.mistakes)

    def _problem(self, document: Document, name: str, *mistakes: Mistake) -> None:
        self._problems.append(Problem(document.kind or "object", name, mistakes))


_EXPECTED = f"and no Node, {nrt.KIND} or Namespace; `kubectl numa snapshot` writes one"
_MOST_NAMED = 3
_FILE = "", ""
