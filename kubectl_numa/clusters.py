"""
Where the nodes come from: a snapshot file, standard input, or the cluster of one's kubeconfig.

Whatever the source, the same decoders read it, and what they could not use is told on standard error, so that
an answer never rests on half a cluster in silence.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import DEFAULTS, ClusterView, WebhookOptions
from numalign.kube import collect, installation
from numalign.kube.client import Forbidden, Unconfigured
from numalign.kube.configz import Progress
from numalign.kube.decode.kubelet_config import KIND
from numalign.kube.files import documents, policy, snapshot
from numalign.kube.files.policy import NO_POLICY, BadPolicy, ClusterPolicy
from numalign.model.errors import BadInput, Mistake
from numalign.shapes import ShapeHistory

PROBLEMS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A snapshot file (`-` is standard input), or else a kubeconfig and one of its contexts."""

    snapshot: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def documents(self) -> list[object]:
        """Everything there is, undecoded; raises `BadInput` and `ClusterError`."""
        if self.snapshot is not None:
            with waiting("reading the snapshot"):
                return documents.load(self.snapshot)
        try:
            return [self.collect()]
        except Unconfigured as error:
            raise Unconfigured(f"{error}, or read a file with --snapshot") from error

    def view(self, options: WebhookOptions = DEFAULTS, *, objects: list[object] | None = None) -> ClusterView:
        """The cluster of these documents, by default all there are, as its webhook sees it now.

        What could not be used is told on standard error. Raises as `documents` and `policy`.
        """
        objects = self.documents() if objects is None else objects
        cluster_policy, now = self.policy(options.policy), time.time()
        history = ShapeHistory(remember=options.remember, wall=lambda: now)
        history.declare(cluster_policy.shapes)
        where = "standard input" if self.snapshot == "-" else self.snapshot or "the cluster"
        cluster = snapshot.of(objects, shape_history=history, where=where)
        _tell_left_out(cluster.problems)
        return ClusterView(cluster, cluster_policy, options, now=now)

    def namespace(self, name: str | None) -> Namespace:
        """Where pods are that name no namespace; raises `ClusterError`.

        That is the one that was asked for by `name`, or else that of the kubeconfig's context. A file has no
        context, so beside one a context counts only if it is named.
        """
        if name:
            return Namespace(name, asked=True)
        if self.snapshot is not None and not (self.kubeconfig or self.context):
            return Namespace()
        of_context = installation.context_namespace(kubeconfig=self.kubeconfig, context=self.context)
        return Namespace(asyncio.run(of_context))

    def policy(self, file: str | None) -> ClusterPolicy:
        """The cluster's policy: that of a file, or else the one that is installed in the running cluster.

        Which one it is, and that one may not be seen, is told on standard error. Raises `BadPolicy` and
        `ClusterError`: where one is broken, nobody knows which one is in force in its place.
        """
        if file is not None:
            return policy.read(Path(file))
        if self.snapshot is not None:
            return NO_POLICY
        try:
            installed = asyncio.run(installation.policy(kubeconfig=self.kubeconfig, context=self.context))
        except Forbidden as error:
            _tell(f"cluster policy: not known, for {error}; give its file with --policy")
            return NO_POLICY
        if not installed:
            return NO_POLICY
        text, name = installed
        _tell(f"cluster policy: ConfigMap {name}")
        try:
            return policy.parse(text.encode())
        except BadPolicy as error:
            raise BadPolicy(mistake.under(f"ConfigMap {name}") for mistake in error.mistakes) from error

    def collect(self, *, with_pods: bool = False, with_kubelet_configs: bool = False) -> dict[str, Any]:
        """The running cluster as a List; raises `ClusterError`.

        Kubelets that do not tell their configuration, and what a snapshot can do without and whoever asks may
        not see, are told of on standard error.
        """
        problems: list[str] = []

        def left_out(what: str, error: Exception) -> None:
            problems.append(f"{what}: {error}")

        with waiting("asking the cluster") as now:
            listener = Progress(
                ask=lambda number, all_: now(f"asking the kubelets: {number:,} of {all_:,}"),
                left_out=lambda node, error: left_out(f"{KIND} {node}", error),
            )
            objects = asyncio.run(
                collect.collect(
                    kubeconfig=self.kubeconfig,
                    context=self.context,
                    with_pods=with_pods,
                    kubelets=listener if with_kubelet_configs else None,
                    left_out=left_out,
                )
            )
        _tell_left_out(problems)
        return objects

    def pod(self, name: str, *, namespace: str, objects: list[object]) -> dict[str, Any]:
        """A pod by its name: out of `objects` if that is a snapshot, else from the running cluster.

        Raises `BadInput` for one that the snapshot lacks, and `ClusterError`.
        """
        if self.snapshot is None:
            work = collect.pod(name, namespace=namespace, kubeconfig=self.kubeconfig, context=self.context)
            return asyncio.run(work)
        for document in documents.objects(objects):
            metadata = document.raw.get("metadata")
            if (document.group, document.kind) == ("", "Pod") and isinstance(metadata, dict):
                place = (metadata.get("namespace") or "default", metadata.get("name"))
                if place == (namespace, name):
                    return dict(document.raw)
        raise BadInput([Mistake("--snapshot", f"holds no pod {namespace}/{name}: give its manifest with -f")])


def _tell(words: str) -> None:
    Console(stderr=True).print(words, markup=False, highlight=False, soft_wrap=True)


def _tell_left_out(problems: Sequence[object]) -> None:
    """The first few, and how many more there are."""
    for problem in problems[:PROBLEMS_SHOWN]:
        _tell(f"left out: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        _tell(f"left out: {len(problems) - PROBLEMS_SHOWN} more objects")


@contextmanager
def waiting(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that something takes its time; what is given says what is done by now."""
    console = Console(file=sys.stderr)
    if console.is_terminal:
        with console.status(f"{doing} ...") as status:
            yield lambda now: status.update(f"{now} ...")
    else:
        yield lambda _now: None
