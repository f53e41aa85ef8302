"""What objects show that the rules do not read: what wrote topologies, which pods request alignment."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kubectl_numa.diagnosis import Traces
from numalign.kube.decode import nrt
from numalign.kube.decode.parts import Part
from numalign.kube.files import documents
from numalign.model.intent import POLICY, VOLCANO_POLICY

_ENDED = frozenset({"Succeeded", "Failed"})
_ASKING = (POLICY, VOLCANO_POLICY)
_TOPOLOGY = ("f:zones", "f:attributes", "f:topologyPolicies")


def traces(values: Iterable[object]) -> Traces:
    """Return the traces in values from JSON or YAML, also inside Lists; invalid values have none."""
    writers, asking = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for document in documents.objects(values):
        part = Part(document.raw)
        match document.group, document.kind:
            case nrt.GROUP, nrt.KIND:
                writers[part["metadata"]["name"].text()] += sorted({*_writers(part)})
            case "", "Pod" if place := _asks_on(part):
                asking[place].append(_name(part))
    return Traces(writers, {node: sorted(pods) for node, pods in asking.items()})


def _writers(topology: Part) -> Iterator[str]:
    """Yield the programs that own a part of what an exporter writes; anyone may write annotations."""
    for entry in topology["metadata"]["managedFields"].objects():
        written = {name for name, _ in entry["fieldsV1"].members()}
        if not written.isdisjoint(_TOPOLOGY) and (manager := entry["manager"].text()):
            yield manager


def _asks_on(pod: Part) -> str:
    """Return the node of a pod that requests alignment; "" for any other pod, and for one that has ended."""
    annotations = pod["metadata"]["annotations"]
    if pod["status"]["phase"].text() in _ENDED or not any(annotations[key].text() for key in _ASKING):
        return ""
    return pod["spec"]["nodeName"].text()


def _name(pod: Part) -> str:
    metadata = pod["metadata"]
    return f"{metadata['namespace'].text() or 'default'}/{metadata['name'].text()}"
