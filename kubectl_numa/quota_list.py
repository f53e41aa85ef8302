"""The namespaces with a limit of exclusive CPUs, and what they use of it: text, tables and JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from kubectl_numa.lines import TextWriter, counted
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from kubectl_numa.selection import PodSelection


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """What a namespace uses of its limit, and what its pods without a node request, in whole CPUs."""

    namespace: str
    used: int
    pending: int
    limit: int

    @property
    def full(self) -> bool:
        """Whether some pods without a node have to wait, or more is used than is allowed."""
        return self.used + self.pending > self.limit


def quotas(placed: PlacedPods, view: ClusterView, selection: PodSelection) -> Iterator[NamespaceQuota]:
    """Yield the selected namespaces with a limit, by name; labels of pods select none of them."""
    pending = Counter[str]()
    for pod in placed.state.pods.values():
        demand = pod.demand or pod.request.most
        # What is reserved for a pod that is pinned is in use.
        if demand and not (pod.ended or placed.state.reservations.node_of(pod.uid)):
            pending[pod.namespace] += demand.exclusive_cpus
    for namespace in sorted(view.cluster.namespaces):
        quota = placed.state.quota(namespace) if selection.selects(namespace, {}) else None
        if quota:
            yield NamespaceQuota(namespace, quota.used, pending[namespace], quota.limit)


def listing(found: Sequence[NamespaceQuota]) -> Listing:
    """Return the quotas as a listing."""
    return Listing(
        ("namespace", "used", "pending", "limit"),
        (
            ListedRow(f"namespace/{each.namespace}", (each.namespace, each.used, each.pending, each.limit))
            for each in found
        ),
        lambda: [asdict(each) for each in found],
        text=lambda writer: _draw(found, writer),
    )


def _draw(found: Sequence[NamespaceQuota], writer: TextWriter) -> None:
    for each in found:
        pending = f", {each.pending} more requested by pods without a node" if each.pending else ""
        words = f"{each.used} of {each.limit} exclusive CPUs in use{pending}"
        label = f"{each.namespace}  "
        writer.line(label, words, indent=len(label), style="yellow" if each.full else "", label_style="bold")
    writer.line("", _summary(found), indent=0)


def _summary(found: Sequence[NamespaceQuota]) -> str:
    if not found:
        return "no namespace has a limit of exclusive CPUs"
    return f"{counted(len(found), 'namespace')} with a limit of exclusive CPUs"
