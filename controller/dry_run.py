"""What `--dry-run` prints: changes of class labels, degraded nodes, and pods that would be healed."""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry

from controller.healing.plan import plan
from controller.labels import GRACE_SECONDS
from controller.node_classes import LabelChange, NodeClasses, classify, names_of
from controller.refused.removal import heals, removals
from controller.settings import ControllerSettings
from numalign.kube import collect
from numalign.kube.cluster import Cluster
from numalign.kube.connection import Connection
from numalign.kube.decode.parts import inner
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files import documents, snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo, PodInformer
from numalign.model.intent import NODE_LABEL
from numalign.model.resources import render
from numalign.model.steps import finished
from numalign.runtime import logs
from numalign.runtime.logs import Log


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """A cluster as read once, with its pods if they were requested; `stored` has their objects by UID."""

    cluster: Cluster
    policy: EffectivePolicy
    pods: tuple[PodInfo, ...] = ()
    stored: Mapping[str, Object] = field(default_factory=dict)


async def dry_run(settings: ControllerSettings) -> str:
    """Return what would change in a file or a cluster; raise `BadInput`, `BadPolicy` and `ClusterError`."""
    cluster = await _read_cluster(settings)
    parts = [report(classify(cluster.cluster))]
    if settings.gates:
        parts.append(unnamed(cluster.cluster))
    if settings.heal:
        parts += [removed(cluster, keep=settings.keep_refused)]
        policy = _policy(settings)
        parts += await plan(cluster.cluster, cluster.stored, settings, policy, now=time.time())
    return "\n".join(parts)


def _policy(settings: ControllerSettings) -> PolicyKeeper:
    """Return the policy of the policy file; raise `BadPolicy`."""
    policy = PolicyKeeper(settings.policy, log=_silent_log(), registry=CollectorRegistry())
    policy.load()
    return policy


def _silent_log() -> Log:
    return logs.to(io.StringIO(), level="error", form="text")


async def _read_cluster(settings: ControllerSettings) -> ClusterObjects:
    """Return what exists, as far as the user may see it."""
    policy = _policy(settings)
    if settings.snapshot:
        where, objects = str(settings.snapshot), documents.stream(settings.snapshot)
    else:
        found = await collect.collect(
            Connection(settings.kubeconfig, settings.context), with_pods=settings.heal
        )
        where, objects = "the cluster", documents.objects([found])
    reader = PodReader(settings.policy_match)
    pods = PodInformer(_NoListener(), reader, log=_silent_log(), registry=CollectorRegistry())
    stored: dict[str, Object] = {}

    def take(raw: Object) -> None:
        stored[str(inner(raw["metadata"], "uid"))] = raw
        pods.put(raw)

    read = snapshot.build(objects, pods=take if settings.heal else None).checked(where)
    return ClusterObjects(read, EffectivePolicy.of(read, policy.now), tuple(pods), stored)


class _NoListener:
    """Ignores changes: pods are used only after all have been read."""

    def update_pod(self, pod: PodInfo) -> None:
        """See `PodListener`."""

    def remove_pod(self, uid: str) -> None:
        """See `PodListener`."""


def removed(cluster: ClusterObjects, *, keep: int) -> str:
    """Return one line for each rejected pod that would be deleted, with the pod that replaced it."""
    due = finished(removals(cluster.pods, cluster.pods, heals=partial(heals, cluster.policy), keep=keep))
    if not due:
        return "no rejected pod would be deleted"
    return "\n".join(
        (
            f"pod {removal.pod.namespace}/{removal.pod.name} would be deleted: the kubelet of"
            f" {removal.pod.node} rejected it ({removal.pod.reason}), and {removal.another.name} was"
            " created since"
        )
        for removal in due
    )


def unnamed(cluster: Cluster) -> str:
    """Return how many nodes would get their name as a label."""
    count = len(NodeClasses({}, {}, names=names_of(cluster)).changes())
    return f"{count} {'node' if count == 1 else 'nodes'} would get the label {NODE_LABEL} with their name"


def report(nodes: NodeClasses) -> str:
    """Return lines with every change if nothing else happened, and every degraded node."""
    labelled = sum(label is not None for label in nodes.labels.values())
    changes = nodes.changes(gone=nodes.missing())
    return "\n".join((_table(changes, labelled=labelled), *_degraded(nodes)))


def _table(changes: Sequence[LabelChange], *, labelled: int) -> str:
    if not changes:
        are = "node is" if labelled == 1 else "nodes are"
        return f"nothing would change ({labelled} {are} labelled)"
    names = [f"{change.node}:" for change in changes]
    befores = [change.before or "no label" for change in changes]
    afters = [change.after or f"no label, after {GRACE_SECONDS} s without topology" for change in changes]
    widths = max(map(len, names)), max(map(len, befores))
    return "\n".join(
        f"{name.ljust(widths[0])} {before.ljust(widths[1])} -> {after}"
        for name, before, after in zip(names, befores, afters, strict=True)
    )


def _degraded(nodes: NodeClasses) -> Iterator[str]:
    for node, lacking in sorted(nodes.lacking.items()):
        amounts = ", ".join(f"{render(name, amount)} {name}" for name, amount in sorted(lacking.items()))
        yield f"{node}: degraded, lacks {amounts}; its class when healthy is {nodes.classes[node]}"
