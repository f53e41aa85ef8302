"""The lines of a conversation about a node, and lines that cannot be read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa.events import BadLine, Created, Deleted, Observed, Started, read
from numalign.kubelet.observed_state import ObservedContainer
from numalign.model.bitset import bits
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Known
from numalign.model.options import Options
from numalign.model.resources import Resources
from tests.worlds import objects
from tests.worlds.notation import table, zone_ids
from tests.worlds.objects import Json, mistakes

NRT = objects.nrt("published", cpu="4", attributes=[{"name": "topologyManagerPolicy", "value": "restricted"}])
MACHINE: Json = {
    "zones": [{"id": 0, "socket": 0, "cores": [[0, 1], [2, 3]], "memory": 2**30}],
    "reservedSystemCPUs": "0",
}
POD: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
SMT = "feature.node.kubernetes.io/cpu-hardware_multithreading"


def line(**event: object) -> bytes:
    return json.dumps(event).encode()


def started(**fields: object) -> Started:
    event = read(line(node={"name": "n", **fields}))
    assert isinstance(event, Started)
    return event


def test_a_node_of_counts() -> None:
    node = started(nrt=NRT, labels={SMT: "true"}, kubeletVersion="v1.34.4").node

    assert (node.name, node.policy, node.cpu_manager) == ("n", Policy.RESTRICTED, CpuManager.STATIC)
    assert (node.known, node.threads, node.options) == (Known.COUNTS, 2, Options(minor=34))


OPTIONS = {"prefer-blue": "true", "numa-allocation-strategy": "most", "numa-score-weights": "cpu=2"}


def test_a_node_with_its_configuration() -> None:
    configured = started(nrt=NRT, kubeletConfig={}).node
    configuration = {"topologyManagerPolicy": "best-effort", "topologyManagerPolicyOptions": OPTIONS}
    node = started(nrt=NRT, kubeletConfig=configuration).node

    assert (configured.known, configured.policy) == (Known.CONFIGURED, Policy.RESTRICTED)
    assert (node.known, node.policy) == (Known.CONFIGURED, Policy.BEST_EFFORT)
    assert node.options.weights == (("cpu", 2),)
    # Options that no kubelet has are no mistake.
    assert {*node.options.unknown} == {"prefer-blue", "numa-allocation-strategy=most"}


def test_a_node_with_its_machine() -> None:
    for nrt, policy in ((NRT, "restricted"), (None, "none")):
        node = started(nrt=nrt, machine=MACHINE, kubeletConfig={"cpuManagerPolicy": "static"}).node
        assert (node.known, node.name, node.policy) == (Known.MACHINE, "n", policy)
        assert node.machine
        assert node.machine.reserved == bits([0])


def test_pods_are_created_deleted_and_rejected() -> None:
    event = read(line(create=POD))
    why = {"reason": "TopologyAffinityError", "message": "no", "free": None}

    assert isinstance(event, Created)
    assert event.pod.name == "p"
    assert read(line(delete="p")) == Deleted("p")
    assert read(line(observed={"pod": "p", "admitted": False, **why})) == Observed("p", None)


def test_a_pod_is_observed() -> None:
    amounts = {"0": {"cpu": 2000, "memory": 5}, "1,0": {"memory": 7}}
    containers = {
        "a": {"affinity": [0], "preferred": True, "cpus": "1,3", "amounts": amounts},
        "b": {"affinity": None, "preferred": True, "amounts": {"": {"x/gpu": 1}}},
        "c": {"amounts": {"0": {"cpu": 1000}}},
    }
    shared = {"cpus": "1-3", "amounts": {"0": {"cpu": 3000}}}
    free = {"0": {"cpu": 0}, "0,1": {"x/gpu": 2}}
    observed = {"pod": "p", "admitted": True, "containers": containers, "shared": shared, "free": free}
    first, both = zone_ids(0), zone_ids(0, 1)
    held = {first: Resources({"cpu": 2000, "memory": 5}), both: Resources({"memory": 7})}

    assert read(line(observed=observed)) == Observed(
        "p",
        (
            ObservedContainer("a", bits([1, 3]), held),
            ObservedContainer("b", 0, {(): Resources({"x/gpu": 1})}),
            ObservedContainer("c", None, {first: Resources({"cpu": 1000})}),
            ObservedContainer(WHOLE_POD, bits([1, 2, 3]), {first: Resources({"cpu": 3000})}),
        ),
        {first: Resources({"cpu": 0}), both: Resources({"x/gpu": 2})},
    )


FOUR = "node, create, observed, delete"
ALIGN = {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicyOptions": {"align-by-socket": "true"}}
STATIC = {"cpuManagerPolicy": "static"}
BROKEN_NODE = {
    "name": "n",
    "nrt": {**NRT, "metadata": {}},
    "kubeletVersion": "new",
    "kubeletConfig": {"cpuManagerPolicy": "dynamic"},
    "machine": {**MACHINE, "reservedSystemCPUs": "9"},
    "labels": [],
}
NO_RESERVED = {"name": "n", "machine": {"zones": MACHINE["zones"]}, "kubeletConfig": STATIC}
CONTRADICTING = {"name": "n", "machine": MACHINE, "kubeletConfig": {"reservedSystemCPUs": "1"}}
BROKEN_CONTAINER = {"cpus": "x", "amounts": {"0": {"cpu": "1500m"}, "zero": {}}, "cpu": 1}
BROKEN_OBSERVATION = {
    "pod": "p",
    "admitted": "yes",
    "seen": 1,
    "containers": {"a": BROKEN_CONTAINER, "b": [], "": {}},
    "free": {"-1": {}, "0": {"memory": -1}},
}
ZONES = "is not listed under zone ids separated by commas, such as 0,1"
WRONG = [
    ("no object", b"[]", ["must be an object, not a list"]),
    ("nested too deep", b'{"node":' * 100_000, ["is nested deeper than 100 levels"]),
    ("no event", b"{}", [f"has no event; a line has one of {FOUR}"]),
    ("several events", line(delete="p", create=POD),
        [f"has several events: delete, create; a line has one of {FOUR}"]),
    ("an unknown event", line(update=POD), [f"update: is not a known field: expected one of {FOUR}"]),
    ("a node that is no object", line(node=1), ["node: must be an object, not a number"]),
    ("an empty node", line(node={}), ["node.name: is missing", "node.nrt: is missing"]),
    ("an unknown field of a node", line(node={"name": "n", "nrt": NRT, "steps": []}),
        [("node.steps: is not a known field: expected one of "
            "name, nrt, kubeletVersion, kubeletConfig, machine, labels")]),
    ("mistakes all over a node", line(node=BROKEN_NODE), [
        "node.nrt.metadata.name: is missing",
        'node.kubeletConfig.cpuManagerPolicy: "dynamic" is not a known value: none, static',
        'node.kubeletVersion: "new" is not a Kubernetes version, such as v1.34.4',
        "node.labels: must be an object, not a list",
        "node.machine.reservedSystemCPUs: CPU 9 is not on this machine"]),
    ("a configuration that no kubelet starts with", line(node={"name": "n", "nrt": NRT,
        "kubeletConfig": ALIGN}),
        [("node.kubeletConfig.cpuManagerPolicyOptions.align-by-socket: the kubelet would not"
            " start: it is not compatible with topologyManagerPolicy single-numa-node")]),
    ("a machine that no kubelet starts on", line(node=NO_RESERVED),
        [("node.kubeletConfig.reservedSystemCPUs: the kubelet would not start: "
            "the CPU manager's policy static needs more than zero CPUs reserved")]),
    ("a machine of another configuration", line(node=CONTRADICTING),
        ['node.kubeletConfig.reservedSystemCPUs: "1" contradicts the machine: "0"']),
    ("a pod that is no object", line(create="p"), ['create: must be an object, not "p"']),
    ("a broken pod", line(create={"metadata": {"name": "p"}, "spec": {"containers": [{}]}}),
        ["create.spec.containers[0].name: is missing"]),
    ("a pod without a name", line(create={"spec": POD["spec"]}), ["create.metadata.name: is missing"]),
    ("no name", line(delete=""), ["delete: is empty"]),
    ("an empty observation", line(observed={}), ["observed.pod: is missing",
        "observed.admitted: is missing"]),
    ("mistakes all over an observation", line(observed=BROKEN_OBSERVATION), [
        ("observed.seen: is not a known field: expected one of "
            "pod, admitted, containers, shared, free, reason, message, known, doubts"),
        'observed.admitted: must be true or false, not "yes"',
        ("observed.containers.a.cpu: is not a known field: expected one of "
            "affinity, preferred, cpus, amounts, choices"),
        'observed.containers.a.cpus: "x" is not a CPU ID or range, as in 0-3,8',
        'observed.containers.a.amounts.0.cpu: must be a whole number, not "1500m"',
        f"observed.containers.a.amounts.zero: {ZONES}",
        "observed.containers.b: must be an object, not a list",
        "observed.containers.: has an empty name",
        f"observed.free.-1: {ZONES}",
        "observed.free.0.memory: must be at least 0, not -1"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), table(WRONG))
def test_all_mistakes_of_a_line_are_raised(text: bytes, messages: list[str]) -> None:
    assert mistakes(BadLine, read, text) == messages


@pytest.mark.parametrize("text", [b"{", b"\xff", b"node", b'{"delete": "p"} {}'])
def test_a_line_that_is_not_json_is_a_mistake(text: bytes) -> None:
    [message] = mistakes(BadLine, read, text)
    assert message.startswith("is not JSON: ")


EVENTS = ["node", "create", "observed", "delete"]
WORDS = [*EVENTS, "name", "nrt", "machine", "zones", "containers", "free", "pod"]
SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "0", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(EVENTS), SCRAPS, min_size=1, max_size=1))
def test_any_line_is_an_event_or_a_mistake(event: Json) -> None:
    try:
        read(line(**event))
    except BadLine:
        return
    assert event
