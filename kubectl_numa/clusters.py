"""
Where the nodes come from: a snapshot file, standard input, or the cluster of one's kubeconfig.

Whatever the source, the same decoders read it, and what they could not use is told on standard error, so that
an answer never rests on half a cluster in silence.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from kubectl_numa import questions
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import Cluster
from numalign.cluster import documents, installed, live, snapshot
from numalign.cluster.api import Unconfigured
from numalign.cluster.configz import Listener
from numalign.cluster.kubelet_config import KIND
from numalign.rules.errors import BadInput, Mistake

PROBLEMS_TOLD = 10


@dataclass(frozen=True, slots=True)
class Source:
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

    def namespace(self, asked: str | None) -> Namespace:
        """Where pods are that name no namespace; raises `ClusterError`.

        That is the one that was `asked` for, or else that of the kubeconfig's context. A file has no context,
        so beside one a context counts only if it is named.
        """
        if asked:
            return Namespace(asked, asked=True)
        if self.snapshot is not None and not (self.kubeconfig or self.context):
            return Namespace()
        found = installed.context_namespace(kubeconfig=self.kubeconfig, context=self.context)
        return Namespace(asyncio.run(found))

    def collect(self, *, with_pods: bool = False, with_kubelet_configs: bool = False) -> dict[str, Any]:
        """The running cluster as a List; raises `ClusterError`.

        Kubelets that do not tell their configuration are told of on standard error.
        """
        silent: list[str] = []
        with waiting("asking the cluster") as now:
            listener = Listener(
                asked=lambda number, all_: now(f"asking the kubelets: {number:,} of {all_:,}"),
                left_out=lambda node, error: silent.append(f"{KIND} {node}: {error}"),
            )
            taken = live.collect(
                kubeconfig=self.kubeconfig,
                context=self.context,
                with_pods=with_pods,
                kubelets=listener if with_kubelet_configs else None,
            )
            found = asyncio.run(taken)
        _tell_left_out(silent)
        return found

    def pod(self, name: str, *, namespace: str, found: list[object]) -> dict[str, Any]:
        """A pod by its name: out of `found` if that is a snapshot, else from the running cluster."""
        if self.snapshot is not None:
            return _pod(name, namespace, found)
        work = live.pod(name, namespace=namespace, kubeconfig=self.kubeconfig, context=self.context)
        return asyncio.run(work)


def cluster(found: list[object]) -> Cluster:
    """The cluster in these documents; what could not be used is told on standard error."""
    read = snapshot.of(found)
    _tell_left_out(read.problems)
    return questions.cluster(read)


def _tell_left_out(problems: Sequence[object]) -> None:
    """The first few, and how many more there are."""
    console = Console(stderr=True)
    for problem in problems[:PROBLEMS_TOLD]:
        console.print(f"left out: {problem}", markup=False, highlight=False, soft_wrap=True)
    if len(problems) > PROBLEMS_TOLD:
        more = len(problems) - PROBLEMS_TOLD
        console.print(f"left out: {more} more objects", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def waiting(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that something takes its time; what is given says what is done by now."""
    console = Console(file=sys.stderr)
    if console.is_terminal:
        with console.status(f"{doing} ...") as status:
            yield lambda now: status.update(f"{now} ...")
    else:
        yield lambda _now: None


def _pod(name: str, namespace: str, found: list[object]) -> dict[str, Any]:
    for each in documents.objects(found):
        metadata = each.raw.get("metadata")
        if (each.group, each.kind) == ("", "Pod") and isinstance(metadata, dict):
            here = metadata.get("namespace") or "default"
            if (metadata.get("name"), here) == (name, namespace):
                return dict(each.raw)
    raise BadInput([Mistake("--snapshot", f"holds no pod {namespace}/{name}: give its manifest with -f")])
