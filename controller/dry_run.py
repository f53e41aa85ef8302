"""What `--dry-run` prints: changes of class labels, degraded nodes, and pods that would be healed."""

import io
import time
from functools import partial

from prometheus_client import CollectorRegistry

from controller.healing.plan import plan
from controller.labels import GRACE_SECONDS
from controller.node_classes import NodeClasses, classify
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


async def dry_run(settings: ControllerSettings) -> str:
    """Return what would change in a file or a cluster; raise `BadInput`, `BadPolicy` and `ClusterError`."""
    log = logs.to(io.StringIO(), level="error", form="text")
    policy = PolicyKeeper(settings.policy, log=log, registry=CollectorRegistry())
    policy.load()
    if settings.snapshot:
        where, objects = str(settings.snapshot), documents.stream(settings.snapshot)
    else:
        # What exists, as far as the user may see it.
        connection = Connection(settings.kubeconfig, settings.context)
        found = await collect.collect(connection, with_pods=settings.heal)
        where, objects = "the cluster", documents.objects([found])
    reader = PodReader(settings.policy_match)
    pods = PodInformer(_NoListener(), reader, log=log, registry=CollectorRegistry())
    stored: dict[str, Object] = {}

    def take(raw: Object) -> None:
        stored[str(inner(raw["metadata"], "uid"))] = raw
        pods.put(raw)

    cluster = snapshot.build(objects, pods=take if settings.heal else None).checked(where)
    parts = [report(classify(cluster))]
    if settings.gates:
        parts.append(unnamed(cluster))
    if settings.heal:
        may_heal = partial(heals, EffectivePolicy.of(cluster, policy.now))
        steps = removals(tuple(pods), tuple(pods), heals=may_heal, keep=settings.keep_refused)
        lines = [
            f"pod {removal.pod.namespace}/{removal.pod.name} would be deleted: the kubelet of"
            f" {removal.pod.node} rejected it ({removal.pod.reason}), and {removal.another.name} was"
            " created since"
            for removal in finished(steps)
        ]
        parts += lines or ["no rejected pod would be deleted"]
        parts += await plan(cluster, stored, settings, policy, now=time.time())
    return "\n".join(parts)


class _NoListener:
    """Ignores changes: pods are used only after all have been read."""

    def update_pod(self, pod: PodInfo) -> None:
        """See `PodListener`."""

    def remove_pod(self, uid: str) -> None:
        """See `PodListener`."""


def unnamed(cluster: Cluster) -> str:
    """Return how many nodes would get their name as a label."""
    names = {node: labels.get(NODE_LABEL) for node, labels in cluster.node_labels.items()}
    count = len(NodeClasses({}, {}, names=names).changes())
    return f"{count} {'node' if count == 1 else 'nodes'} would get the label {NODE_LABEL} with their name"


def report(nodes: NodeClasses) -> str:
    """Return lines with every change if nothing else happened, and every degraded node."""
    changes = nodes.changes(gone=nodes.missing())
    names = [f"{change.node}:" for change in changes]
    befores = [change.before or "no label" for change in changes]
    afters = [change.after or f"no label, after {GRACE_SECONDS} s without topology" for change in changes]
    widths = max(map(len, names), default=0), max(map(len, befores), default=0)
    lines = [
        f"{name.ljust(widths[0])} {before.ljust(widths[1])} -> {after}"
        for name, before, after in zip(names, befores, afters, strict=True)
    ]
    if not lines:
        labelled = sum(label is not None for label in nodes.labels.values())
        are = "node is" if labelled == 1 else "nodes are"
        lines = [f"nothing would change ({labelled} {are} labelled)"]
    for node, lacking in sorted(nodes.lacking.items()):
        amounts = ", ".join(f"{render(name, amount)} {name}" for name, amount in sorted(lacking.items()))
        lines.append(f"{node}: degraded, lacks {amounts}; its class when healthy is {nodes.classes[node]}")
    return "\n".join(lines)
