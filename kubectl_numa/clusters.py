"""
Where the nodes come from: a snapshot file, standard input, or the cluster of the kubeconfig.

The same decoders read all sources. What they cannot use is reported on standard error, so that no answer
silently depends on half a cluster.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubectl_numa.lines import notify_skipped, waiting
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import DEFAULTS, ClusterView, WebhookOptions
from kubectl_numa.typed_names import TypedName
from numalign.kube import exporters
from numalign.kube.cluster import Cluster
from numalign.kube.command_line import Trouble
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.kube.errors import Unconfigured
from numalign.kube.files import documents, policy, snapshot
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.errors import BadInput, Mistake
from numalign.shapes import ShapeHistory

if TYPE_CHECKING:
    from kubectl_numa.running_cluster import RunningCluster


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A snapshot file (`-` is standard input), or else the cluster of a connection.

    Raise `Trouble` for connection flags together with a snapshot, which needs none.
    """

    snapshot: str | None = None
    connection: Connection = FROM_KUBECONFIG

    def __post_init__(self) -> None:
        if self.snapshot is None:
            return
        if self.connection.user is not None:
            raise Trouble(
                "--as impersonates a user in requests to the API server, and --snapshot makes none: use"
                " --created-by to name the user who creates the pods"
            )
        if flags := self.connection.calls:
            raise Trouble(f"{', '.join(flags)}: cannot be used with --snapshot, which calls no API server")

    @property
    def has_context(self) -> bool:
        """Return whether a kubeconfig provides defaults: with a snapshot file only if one is named."""
        return self.snapshot is None or self.connection.named

    @property
    def running(self) -> "RunningCluster":
        """Return the running cluster."""
        # A file is read without waiting for the API server's client.
        from kubectl_numa.running_cluster import RunningCluster  # noqa: PLC0415  imported only if needed

        return RunningCluster(self.connection)

    def documents(self, *, with_pods: bool = False) -> list[object]:
        """Return all objects, undecoded; raise `BadInput` and `ClusterError`.

        Pods of a running cluster are included only `with_pods`; those of a file always.
        """
        if self.snapshot is not None:
            with waiting("reading the snapshot"):
                return documents.load(self.snapshot)
        try:
            return [self.running.collect(with_pods=with_pods)]
        except Unconfigured as error:
            raise Unconfigured(f"{error}, or read a file with --snapshot") from error

    def view(self, options: WebhookOptions = DEFAULTS, *, objects: list[object] | None = None) -> ClusterView:
        """Return the cluster of these documents, by default of all, as its webhook sees it now.

        What could not be used is reported on standard error. Raise as `documents` and `policy` do.
        """
        objects = self.documents() if objects is None else objects
        cluster_policy, now = self.policy(options.policy), time.time()
        history = ShapeHistory(remember=options.remember, wall=lambda: now)
        history.declare(cluster_policy.declared)
        cluster = self.decoded(objects, history)
        notify_skipped(cluster.problems)
        return ClusterView(cluster, cluster_policy, options, now=now, seen=self.seen(cluster, now=now))

    def decoded(self, objects: list[object], history: ShapeHistory | None = None) -> Cluster:
        """Return the cluster of these documents, with its problems; raise `BadSnapshot`."""
        where = "standard input" if self.snapshot == "-" else self.snapshot or "the cluster"
        return snapshot.of(objects, shape_history=history, where=where)

    def seen(self, cluster: Cluster, *, now: float) -> float:
        """Return the time of a cluster's state, `now` or when its file was written, in seconds since 1970."""
        return now if self.snapshot is None else exporters.newest(cluster, now=now)

    def namespace(self, name: str | None) -> Namespace:
        """Return the namespace of pods that name none; raise `ClusterError`.

        That is the given `name`, or else that of the kubeconfig's context. A file has no context, so with a
        file a context counts only if it is named.
        """
        if name:
            return Namespace(name, asked=True)
        if not self.has_context:
            return Namespace()
        return Namespace(self.running.namespace())

    def policy(self, file: str | None) -> ClusterPolicy:
        """Return the policy of a file, or else the installed one; raise `BadPolicy` and `ClusterError`."""
        if file is not None:
            return policy.read(Path(file))
        return self.running.policy() if self.snapshot is None else NO_POLICY

    def one(self, named: TypedName, *, namespace: str, objects: list[object]) -> dict[str, Any]:
        """Return an object by its name: from `objects` if that is a snapshot, else from the running cluster.

        Raise `BadInput` for an object that the snapshot lacks, and `ClusterError`.
        """
        if self.snapshot is None:
            return self.running.one(named, namespace=namespace)
        for document in documents.objects(objects):
            metadata = document.raw.get("metadata")
            if named.type.is_of(document.group, document.kind) and isinstance(metadata, dict):
                place = (metadata.get("namespace") or "default", metadata.get("name"))
                if place == (namespace, named.name):
                    return dict(document.raw)
        what = f"{named.type.singular} {namespace}/{named.name}"
        raise BadInput([Mistake("--snapshot", f"contains no {what}: pass its manifest with -f")])
