"""
What objects show that the rules do not read.

What wrote topologies, which pods request alignment, and how far the clock of a node is from that of the API
server: a kubelet's heartbeat is by the one, and the time of the same write by the other. And a pod that
started before it was bound proves that its node's clock was behind then.
"""

from collections import defaultdict
from collections.abc import Iterable

from kubectl_numa.diagnosis import Skew, Traces
from numalign.kube import pod_informer
from numalign.kube.decode import nrt
from numalign.kube.decode.parts import Part
from numalign.kube.files import documents
from numalign.kube.kinds import READY_KEY
from numalign.model.intent import POLICY, VOLCANO_POLICY

_KUBELETS = frozenset({"kubelet", "kubelet.exe"})
_ENDED = frozenset({"Succeeded", "Failed"})
_TOPOLOGY = frozenset({"f:zones", "f:attributes", "f:topologyPolicies"})
"""What an exporter writes."""


def traces(values: Iterable[object]) -> Traces:
    """Return the traces in values from JSON or YAML, also inside Lists; invalid values have none."""
    writers, asking = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    skews, last = dict[str, Skew](), dict[str, tuple[int, int]]()
    for document in documents.objects(values):
        part = Part(document.raw)
        metadata, node = part["metadata"], part["spec"]["nodeName"].text()
        match document.group, document.kind:
            case nrt.GROUP, nrt.KIND:
                own = (
                    entry["manager"].text()
                    for entry in metadata["managedFields"].objects()
                    # Anyone may write annotations.
                    if not _TOPOLOGY.isdisjoint(name for name, _ in entry["fieldsV1"].members())
                )
                writers[metadata["name"].text()] += sorted({*filter(None, own)})
            case "", "Node" if (seconds := _heartbeat_ahead(part)) is not None:
                skews[metadata["name"].text()] = Skew(seconds)
            case "", "Pod":
                asks = any(metadata["annotations"][key].text() for key in (POLICY, VOLCANO_POLICY))
                if node and asks and part["status"]["phase"].text() not in _ENDED:
                    namespace = metadata["namespace"].text() or "default"
                    asking[node].append(f"{namespace}/{metadata['name'].text()}")
                last[node] = max(last.get(node, (0, 0)), _start(part))
    proved = {node: Skew(ahead, measured=False) for node, (_, ahead) in last.items() if ahead < 0}
    return Traces(writers, {node: sorted(pods) for node, pods in asking.items()}, proved | skews)


def _heartbeat_ahead(node: Part) -> int | None:
    """Return by how many seconds the last heartbeat is after the write that brought it; None if unknown."""
    conditions = node["status"]["conditions"].objects()
    ready = next((each for each in conditions if each["type"].value == "Ready"), None)
    # Without heartbeats, a controller writes the condition.
    if ready is None or ready["status"].value == "Unknown":
        return None
    beats = [
        entry
        for entry in node["metadata"]["managedFields"].objects()
        if entry["fieldsV1"]["f:status"]["f:conditions"][READY_KEY]["f:lastHeartbeatTime"].value is not None
    ]
    written = max((entry["time"].time() for entry in beats), default=0)
    heartbeat = ready["lastHeartbeatTime"].time()
    if not (heartbeat and written):
        return None
    # A program that is more than a kubelet, as k3s, may have written something else since.
    alone = all(entry["manager"].value in _KUBELETS for entry in beats)
    return heartbeat - written if alone or heartbeat > written else None


def _start(pod: Part) -> tuple[int, int]:
    """Return when a pod was bound, and by how many seconds it started after that; zeros if unknown."""
    started, bound = pod["status"]["startTime"].time(), pod_informer.bound_at(pod)
    owner = pod_informer.owner_of(pod["metadata"])
    # A kubelet starts its static pods before the API server knows of them.
    static = owner is not None and owner.kind == "Node"
    return (bound, started - bound) if started and not static else (0, 0)
