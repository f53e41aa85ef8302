"""The pods that a kubelet rejected: text for people, tables and JSON."""

from collections import Counter
from collections.abc import Sequence

from kubectl_numa.lines import TextWriter, counted, some
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.running_pods import labels_of
from kubectl_numa.selection import PodSelection
from numalign.scheduling import rejected_pods
from numalign.scheduling.rejected_pods import RejectedPod


def listing(placed: PlacedPods, selection: PodSelection, *, now: float) -> Listing:
    """Return the rejected pods that are selected, the last ones first; `now` is in seconds since 1970."""
    pods = [
        rejected
        for pod in placed.state.pods.values()
        if (rejected := rejected_pods.of_pod(pod))
        and selection.selects(pod.namespace, labels_of(placed.stored[pod.uid]))
    ]
    pods.sort(key=lambda pod: (-pod.at, pod.namespace, pod.name))
    return Listing(
        ("namespace", "name", "node", "rejected", "reason", "owner"),
        (ListedRow(f"pod/{pod.name}", _cells(pod, now)) for pod in pods),
        lambda: [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "owner": _owner(pod),
                **pod.to_json(),
            }
            for pod in pods
        ],
        wide_columns=("message",),
        text=lambda writer: _draw(pods, writer, now),
    )


def _owner(pod: RejectedPod) -> dict[str, str] | None:
    return {"kind": pod.owner.kind, "name": pod.owner.name} if pod.owner else None


def _cells(pod: RejectedPod, now: float) -> tuple[object, ...]:
    owner = pod.owner and f"{pod.owner.kind}/{pod.owner.name}"
    return pod.namespace, pod.name, pod.node, pod.when(now), pod.reason, owner, pod.message


def _draw(pods: Sequence[RejectedPod], writer: TextWriter, now: float) -> None:
    for pod in pods:
        of = f" of {pod.owner.kind}/{pod.owner.name}" if pod.owner else ""
        writer.entry("", f"{pod.namespace}/{pod.name}{of}", indent=0, style="bold")
        writer.entry("", pod.sentence(now), indent=4, style="red")
    writer.line("", _summary(pods), indent=0)


def _summary(pods: Sequence[RejectedPod]) -> str:
    if not pods:
        return "no kubelet has rejected a pod that still exists"
    reasons = Counter(pod.reason for pod in pods).most_common()
    return f"{counted(len(pods), 'pod')}: {some(f'{count:,} {reason}' for reason, count in reasons)}"
