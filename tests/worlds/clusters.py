"""Clusters as programs know them, and how a feed changes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from numalign.kube.cluster import (
    NO_NODE,
    Cluster,
    NamespaceChanged,
    NodeChanged,
    NodeState,
    ProblemsChanged,
    ServerChanged,
    Settled,
    ShapesChanged,
    differences,
)
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.stores import Problem
from numalign.model import intent
from numalign.model.intent import NamespaceRules
from numalign.model.node import Node
from numalign.model.options import NEWEST
from numalign.model.steps import finished
from numalign.shapes import KnownShape, UnknownNode, keyed
from numalign.shapes.growable_pools import BUILT_IN


def a_cluster(  # noqa: PLR0913  one keyword for each part of a cluster
    nodes: Iterable[Node] = (),
    unknown: Iterable[str] = (),
    *,
    shapes: Iterable[KnownShape] = (),
    rules: Mapping[str, NamespaceRules] | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    classes: Mapping[str, str | None] | None = None,
    observed_at: Mapping[str, float | None] | None = None,
    served: Iterable[str] = (),
    server: int = NEWEST,
    problems: Iterable[Problem] = (),
    parts: Mapping[str, Mapping[str, Any]] | None = None,
    **namespaces: Any,  # noqa: ANN401  their labels
) -> Cluster:
    """A cluster that is known completely.

    Labels of namespaces are without our prefix, others with a `/`; `labels` are those of Nodes, and `classes`
    the labels with their classes. `parts` are other fields of the states of nodes, by name.
    """
    cluster = Cluster(observed_at)
    cluster.apply(ServerChanged(server, frozenset(served)))
    cluster.apply(ShapesChanged(keyed(shapes), None, BUILT_IN))
    for name, ruled in (rules or {}).items():
        cluster.apply(NamespaceChanged(name, NamespaceFacts(ruled)))
    for name, written in namespaces.items():
        full = {key if "/" in key else f"{intent.PREFIX}{key}": value for key, value in written.items()}
        cluster.apply(NamespaceChanged(name, NamespaceFacts(intent.parse_namespace(full)[0], full)))
    known = {node.name: node for node in nodes}
    bare = {name: UnknownNode(name) for name in unknown}
    for name in {**known, **bare, **(labels or {}), **(classes or {}), **(parts or {})}:
        fields: dict[str, Any] = {
            "node": known.get(name),
            "bare": bare.get(name),
            "labels": (labels or {}).get(name),
            "class_label": (classes or {}).get(name),
            "classifiable": name in (classes or {}),
        }
        state = NodeState(**{**fields, **(parts or {}).get(name, {})})
        cluster.apply(NodeChanged(name, NO_NODE, state))
    for number, problem in enumerate(problems):
        cluster.apply(ProblemsChanged((problem.name, str(number)), (), (problem,)))
    cluster.apply(Settled())
    return cluster


def become(cluster: Cluster, after: Cluster) -> None:
    """Change a cluster into another, as a file does that is read again."""
    cluster.observed_at = after.observed_at
    for change in differences(cluster, after):
        cluster.apply(change)


def published(state: ClusterState) -> Cluster:
    """The cluster of these objects, once everything that changed is published."""
    finished(state.publish())
    return state.cluster
