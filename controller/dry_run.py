"""What `--dry-run` prints: which class labels would change, and which nodes are ill."""

from collections.abc import Iterator, Sequence

from controller.labels import GRACE_SECONDS
from controller.node_classes import Change, NodeClasses, classify
from controller.settings import ControllerSettings
from numalign.kube import collect
from numalign.kube.files import snapshot
from numalign.model.resources import render


async def dry_run(settings: ControllerSettings) -> str:
    """Which class labels of a file or a cluster would change; raises `BadInput` and `ClusterError`."""
    if settings.snapshot:
        read = snapshot.load(settings.snapshot)
    else:
        read = snapshot.of([await collect.collect(kubeconfig=settings.kubeconfig, context=settings.context)])
    return report(classify(read))


def report(nodes: NodeClasses) -> str:
    """Every change if nothing else happened, and every node that is ill, in lines."""
    labelled = sum(label is not None for label in nodes.labels.values())
    changes = nodes.changes(gone=nodes.missing())
    return "\n".join((_table(changes, labelled=labelled), *_ill(nodes)))


def _table(changes: Sequence[Change], *, labelled: int) -> str:
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


def _ill(nodes: NodeClasses) -> Iterator[str]:
    for node, lacking in sorted(nodes.ill.items()):
        amounts = ", ".join(f"{render(name, amount)} {name}" for name, amount in sorted(lacking.items()))
        yield f"{node}: ill, lacks {amounts}; in health its class is {nodes.classes[node]}"
