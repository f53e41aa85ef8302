"""What holds for every decoder: each mistake has its place, and no input raises anything else."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import (
    device_classes,
    kubelet_config,
    kubelet_reports,
    machines,
    namespaces,
    nodes,
    nrt,
    numatopologies,
    placements,
    pods,
    scheduling,
    shapes,
    templates,
)
from numalign.kube.decode.parts import Part
from numalign.kube.files import policy
from numalign.model.errors import BadInput, Mistake
from tests.worlds.objects import Json, configuration, described_machine, machine_zone, node, numatopology
from tests.worlds.scraps import ABSENT, Path, changed, documents, paths


class Decoder(NamedTuple):
    """How to decode, a document, its required members, those of any type, and objects without other members.

    A path is written as in a mistake; `root` is the place of the document. `free` are the members that may
    be any text or number, each with its parent.
    """

    decode: Callable[[Any], object]
    good: Any
    required: str = ""
    lenient: str = ""
    closed: str = ""
    free: str = ""
    root: str = ""


def topology(document: Any) -> Sequence[Mistake]:  # noqa: ANN401  any JSON
    return nrt.topology(document).odd


def policy_file(document: object) -> object:
    return policy.parse(yaml.safe_dump(document).encode())


def declared_shapes(document: object) -> Sequence[Mistake]:
    part = Part(document, "shapes")
    shapes.declared(part)
    return part.mistakes


def workload(document: Any) -> Sequence[Mistake]:  # noqa: ANN401  any JSON
    scan = templates.scan(document, templates.group_kind(document))
    made = templates.pod_templates(scan, owner=document)
    return [*scan.mistakes, *(mistake for each in made for mistake in each.mistakes)]


AMOUNTS = {"cpu": "1", "memory": "1Gi"}
CONTAINER = {"name": "c", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}
POD: Json = {
    "metadata": {"name": "p", "namespace": "team", "annotations": {"a": "b"}},
    "spec": {"containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "i", "restartPolicy": "Always"}],
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
}  # fmt: skip
RESOURCE = {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"}
ATTRIBUTE = {"name": "topologyManagerPolicy", "value": "restricted"}
ZONE = {"name": "node-0", "type": "Node", "resources": [RESOURCE]}
TOPOLOGY: Json = {"apiVersion": "topology.node.k8s.io/v1alpha2", "metadata": {"name": "n"},
    "zones": [{**ZONE, "costs": [{"name": "node-0", "value": 10}]}], "attributes": [ATTRIBUTE]}  # fmt: skip
KUBELET = configuration("n", topologyManagerPolicy="restricted", topologyManagerScope="pod",
    topologyManagerPolicyOptions={"max-allowable-numa-nodes": "12"}, cpuManagerPolicy="static",
    cpuManagerPolicyOptions={"full-pcpus-only": "true"}, memoryManagerPolicy="Static",
    featureGates={"PodLevelResourceManagers": True}, reservedSystemCPUs="0", kubeReserved={"memory": "1Gi"},
    systemReserved={"cpu": "1"}, evictionHard={"memory.available": "1Gi"},
    reservedMemory=[{"numaNode": 0, "limits": {"memory": "1Gi"}}])  # fmt: skip
MACHINE = described_machine(
    machine_zone(0, hugepages={"1Gi": 1}, distances=[10], uncoreCaches=[[0, 2, 1, 3]]),
    devices={"x/gpu": [{"id": "a", "zones": [0], "healthy": True}]},
)
COUNTED = {**MACHINE, "devices": {"x/gpu": [{"zones": [0], "total": 1, "healthy": 1}]}}
ENTRY = {"zones": ["node-0"], "amount": {"cpu": "1"}}
EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
TERM = {"matchExpressions": [EXPRESSION], "matchFields": [{**EXPRESSION, "key": "metadata.name"}]}
TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}
NODE: Json = {**node("n", a="b"), "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}},
    "spec": {"unschedulable": True, "taints": [TAINT]},
    "status": {"allocatable": AMOUNTS, "conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip

DECODERS = {
    "pod": Decoder(pods.pod, POD,
        free="metadata.name metadata.namespace annotations.a containers.name initContainers.name"
        " initContainers.restartPolicy",
        required="spec spec.containers spec.containers[0].name spec.initContainers[0].name"),
    "node": Decoder(nodes.facts, NODE,
        free="apiVersion kind metadata.name metadata.uid labels.a conditions.type conditions.status"
        " taints.key taints.value taints.effect",
        required="metadata.name spec.taints[0].key spec.taints[0].effect",
        lenient="apiVersion kind"),
    "topology": Decoder(topology, TOPOLOGY,
        free="metadata.name resources.name costs.name attributes.name",
        required="apiVersion metadata.name zones zones[0].name zones[0].type zones[0].resources[0].name"
        " zones[0].resources[0].capacity zones[0].resources[0].allocatable zones[0].resources[0].available"
        " zones[0].costs[0].name zones[0].costs[0].value attributes[0].name attributes[0].value"),
    "Numatopology": Decoder(numatopologies.report,
        numatopology(resReserved={"cpu": "1"},
            podAllocations=[{"containerAllocations": [{"allocations": {"cpu": "1"}}]}]),
        free="apiVersion kind metadata.name cpu.capacity",
        required="metadata.name spec spec.numares.cpu spec.cpuDetail",
        lenient="apiVersion kind spec.numares.cpu.capacity"),
    "kubelet configuration": Decoder(kubelet_config.kubelet_configuration, KUBELET,
        free="apiVersion kind metadata.name",
        required="metadata.name reservedMemory[0].numaNode reservedMemory[0].limits",
        lenient="apiVersion kind"),
    "machine": Decoder(machines.machine, MACHINE,
        free="x/gpu.id x/gpu.zones",
        required="zones zones[0].id zones[0].socket zones[0].memory devices[x/gpu][0].id",
        closed=". zones[0] devices[x/gpu][0]"),
    "machine report": Decoder(lambda document: kubelet_reports.read_machine(json.dumps(document), "n"),
        {"version": 1, "kubelet": {"version": "v1.34.4", "cpuManagerPolicy": "static"}, "machine": COUNTED},
        free="kubelet.version x/gpu.zones",
        required="version kubelet kubelet.version machine machine.zones machine.zones[0].id"
        " machine.zones[0].socket machine.zones[0].memory machine.devices[x/gpu][0].zones"
        " machine.devices[x/gpu][0].total machine.devices[x/gpu][0].healthy",
        closed="machine machine.zones[0] machine.devices[x/gpu][0]"),
    "placements": Decoder(lambda document: kubelet_reports.read_placements(json.dumps(document)),
        {"version": 1, "pods": {"u": {"held": [ENTRY], "cpus": "1"}}},
        free="held.zones",
        required="version pods pods.u.held pods.u.held[0].zones pods.u.held[0].amount",
        closed="pods.u"),
    "record": Decoder(lambda document: placements.read(json.dumps(document)),
        [ENTRY],
        free="zones",
        required="[0].zones [0].amount"),
    "namespace": Decoder(lambda document: namespaces.facts(document)[1],
        {"metadata": {"name": "n", "labels": {"numalign.io/warn": "restricted"}}},
        free="metadata.name",
        required="metadata.name"),
    "device class": Decoder(lambda document: device_classes.served(document)[1],
        {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "a.io/b"}},
        free="metadata.name spec.extendedResourceName",
        required="metadata.name"),
    "scheduling": Decoder(lambda document: scheduling.scheduling(document).mistakes,
        {"spec": {"nodeName": "n", "nodeSelector": {"a": "b"}, "os": {"name": "linux"},
            "tolerations": [{**TAINT, "operator": "Equal"}],
            "affinity": {"nodeAffinity": {scheduling.REQUIRED: {"nodeSelectorTerms": [TERM]}}}}},
        free="spec.nodeName nodeSelector.a os.name tolerations.key tolerations.operator"
        " tolerations.value tolerations.effect matchExpressions.key matchExpressions.operator"
        " matchExpressions.values matchFields.key matchFields.operator matchFields.values",
        required="spec"),
    "shapes": Decoder(declared_shapes,
        [{"labels": {"pool": "gpu", "rack": {"values": ["a"], "always": False}}, "taints": [TAINT],
            "allocatable": {"cpu": 8}, "otherLabels": False, "attributes": [ATTRIBUTE], "zones": [ZONE],
            "kubelet": {"cpuManagerPolicy": "static"}}],
        root="shapes",
        free="taints.key taints.value taints.effect attributes.name resources.name resources.available",
        required="shapes[0].taints[0].key shapes[0].taints[0].effect shapes[0].attributes[0].name"
        " shapes[0].attributes[0].value shapes[0].zones shapes[0].zones[0].name shapes[0].zones[0].type"
        " shapes[0].zones[0].resources[0].name shapes[0].zones[0].resources[0].capacity"
        " shapes[0].zones[0].resources[0].allocatable",
        lenient="shapes[0].zones[0].resources[0].available",
        closed="shapes[0] shapes[0].labels.rack"),
    "policy": Decoder(policy_file,
        {"defaults": [{"namespaceSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]},
            "warn": "restricted", "exclusiveCPUs": 4}],
            "exemptions": {"users": ["eve"], "namespaces": ["a"], "runtimeClasses": ["kata"]},
            "workloads": [{"group": "x.io", "kind": "Job", "templates": ["spec.template"]}],
            "never": "warn", "unknownResources": "deny", "taints": "ignore", "partial": "deny",
            "overQuota": "deny", "poolLabels": ["pool"], "fixedPools": ["pool=a"],
            "unalignedResources": ["x.io/a"]},
        free="exemptions.users",
        required="defaults[0].namespaceSelector.matchExpressions[0].key"
        " defaults[0].namespaceSelector.matchExpressions[0].operator"
        " workloads[0].kind workloads[0].templates",
        closed=". defaults[0] defaults[0].namespaceSelector defaults[0].namespaceSelector.matchExpressions[0]"
        " exemptions workloads[0]"),
    "workload": Decoder(workload,
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"tasks": [{"template": {"spec": POD["spec"]}, "topologyPolicy": "restricted"}]}},
        free="apiVersion kind metadata.name containers.name initContainers.name initContainers.restartPolicy",
        required="apiVersion kind spec.tasks[0].template.spec spec.tasks[0].template.spec.containers"
        " spec.tasks[0].template.spec.containers[0].name"
        " spec.tasks[0].template.spec.initContainers[0].name"),
}  # fmt: skip


def mistakes(decoder: Decoder, document: object) -> Sequence[Mistake]:
    try:
        result = decoder.decode(document)
    except BadInput as error:
        return error.mistakes or [Mistake("", "")]
    return result if isinstance(result, list | tuple) else ()


def place(decoder: Decoder, path: Path) -> str:
    written = decoder.root
    for step in path:
        plain = isinstance(step, str) and not {*step} & {"/", "."}
        written += f".{step}" if plain else f"[{step}]"
    return written.removeprefix(".")


def values(decoder: Decoder) -> Iterator[tuple[Path, str, object]]:
    """Each value inside a document: its path, its place as written, and the value."""
    for path in [*paths(decoder.good)][1:]:
        yield path, place(decoder, path), reduce(lambda inner, step: inner[step], path, decoder.good)


EVERY = pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)


@EVERY
def test_a_value_of_another_type_is_a_mistake_at_its_place(decoder: Decoder) -> None:
    assert not mistakes(decoder, decoder.good)
    lenient = set()
    for path, where, value in values(decoder):
        other = {"x": [7]} if isinstance(value, list) else [{"x": 7}]
        wrong = mistakes(decoder, changed(decoder.good, path, other))
        lenient |= set() if any(mistake.where.startswith(where) for mistake in wrong) else {where}
    assert lenient == {*decoder.lenient.split()}


@EVERY
def test_a_required_member_is_missing_at_its_place(decoder: Decoder) -> None:
    required = set()
    for path, where, _ in values(decoder):
        if isinstance(path[-1], str):
            texts = map(str, mistakes(decoder, changed(decoder.good, path, ABSENT)))
            required |= {where} & {line.removesuffix(": is missing") for line in texts}
    assert required == {*decoder.required.split()}


@EVERY
def test_a_text_or_number_without_meaning_is_a_mistake(decoder: Decoder) -> None:
    free = set()
    for path, where, value in values(decoder):
        if isinstance(value, str | int) and not isinstance(value, bool):
            wrong = mistakes(decoder, changed(decoder.good, path, "?~" if isinstance(value, str) else -1))
            # A selector or a list is wrong as a whole.
            if not any(mistake.where in where and mistake.where for mistake in wrong):
                free.add(".".join([step for step in path if isinstance(step, str)][-2:]))
    assert free == {*decoder.free.split()}


UNKNOWN = ("is not a known field: expected one of ", "unknown key; expected one of ")


@EVERY
def test_an_unknown_member_is_a_mistake_of_a_closed_object(decoder: Decoder) -> None:
    closed = set()
    for path, where, value in [((), "", decoder.good), *values(decoder)]:
        if isinstance(value, dict):
            wrong = mistakes(decoder, changed(decoder.good, (*path, "zzz"), "q"))
            closed |= {where or "."} if any(each.message.startswith(UNKNOWN) for each in wrong) else set()
    assert closed == {*decoder.closed.split()}


@EVERY
@given(data=st.data())
def test_any_value_at_any_place_raises_mistakes_alone(decoder: Decoder, data: st.DataObject) -> None:
    texts = mistakes(decoder, data.draw(documents(decoder.good)))
    assert all(mistake.message for mistake in texts)
