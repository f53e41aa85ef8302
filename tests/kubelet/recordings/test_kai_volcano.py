"""
The rules against two schedulers that know zones: the cases of KAI-Scheduler and Volcano, restated as data.

KAI predicts placements from the same topologies; Volcano has a copy of an old CPU manager and its hint merge,
and wants a pod's policy to be the node's own. A case either agrees, or stands in `DIFFERENT` with the rule
that decides otherwise. What is a matter of their bookkeeping stands in `NOT_A_RULE`, and what Volcano's own
client does before and after a call in `NOT_OURS`; the calls and answers themselves are compared.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
import pytest

from numalign.cache.ranking import Relative, relative_values
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Verdict
from numalign.kube.decode.nrt import Topology, topology
from numalign.kubelet import cpu_manager, hint_sets
from numalign.kubelet.admission_errors import RejectionReason as Refusal
from numalign.kubelet.admit import admit, charge
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.topology_manager import NumaInfo, ResourceHints, merge
from numalign.model import demand as demands
from numalign.model import intent as intents
from numalign.model import machine, resources
from numalign.model.bitset import bits, members
from numalign.model.demand import Demand, Step
from numalign.model.errors import BadIntent, BadTopology
from numalign.model.intent import Intent, Match, Policy, Scope
from numalign.model.machine import Core
from numalign.model.node import CpuManager, MemoryManager, Node, Zone, managers
from numalign.model.options import DEFAULTS
from numalign.model.placement import Placement, ZoneSet
from numalign.model.pod import Role
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from scorer import volcano_protocol as volcano
from scorer.volcano_protocol import Code
from tests.kubelet.recordings.cases import Json, data, free_by_zone, pod_of, zones_of
from tests.kubelet.recordings.conftest import Ledger

Answer = tuple[object, object]
"""What the rules say of a case, and what the project says."""


class Reason(StrEnum):
    """Why the rules answer otherwise: what the kubelet does and where, or what else decides."""

    INIT_CPUS = "the CPUs of finished init containers stay with the pod (cpumanager/policy_static.go)"
    INIT_ALIGNED = "init containers are aligned like the others (topologymanager/scope_container.go)"
    LOWEST_MASK = "of masks that are as wide, the one of the lowest number is taken (HintMerger.compare)"
    NARROWEST = "the narrowest set of zones is taken; no zone is added to another (topologymanager/policy.go)"
    EQUAL_MASKS = (
        "since Kubernetes 1.24 merged hints are preferred only if they all have the same mask "
        "(topologymanager/policy.go, mergePermutation)"
    )
    BY_HARDWARE = "widths count all devices, busy ones too (devicemanager/topology_hints.go)"
    EVERY_POLICY = "devices that are not there are given out under no policy (devicemanager/manager.go)"
    REAL_ZONE = "without alignment a pod still gets certain zones; KAI assumes the worst"
    NO_ZONES = "nothing is known of a node without topology, so there is nothing to rank"
    KEPT_OR_REFUSED = (
        "an intent is kept or refused: it is not kept where the kubelet pins nothing for the pod"
    )
    DEFAULTED = "the API server makes a limit the request before it is read (pkg/apis/core/v1/defaults.go)"
    DEPRECATED = "deprecated words are read as scheduler-plugins reads them, which KAI does not"
    REPORTED = "what cannot be read is reported, where KAI takes a default in silence"
    UNMISTAKABLE = "no answer is written that Volcano would take for another: each text has its code"


_DIFFERENT: Mapping[Reason, str] = {
    Reason.INIT_CPUS: "KAI-014",
    Reason.INIT_ALIGNED: "VC-059",
    Reason.LOWEST_MASK: "KAI-043",
    Reason.NARROWEST: "KAI-087",
    Reason.EQUAL_MASKS: "VC-024 VC-030",
    Reason.BY_HARDWARE: "VC-122",
    Reason.EVERY_POLICY: "KAI-051",
    Reason.REAL_ZONE: "KAI-075",
    Reason.NO_ZONES: "KAI-076",
    Reason.KEPT_OR_REFUSED: "KAI-136 VC-050 VC-057 VC-086",
    Reason.DEFAULTED: "VC-085",
    Reason.DEPRECATED: "KAI-097 KAI-098",
    Reason.REPORTED: "KAI-099",
    Reason.UNMISTAKABLE: "VC-103 VC-107",
}

DIFFERENT = {case: reason for reason, listed in _DIFFERENT.items() for case in listed.split()}

NOT_A_RULE: Mapping[str, str] = {
    "placement-record": "which of several written placements of a pod counts, and how one is written",
    "exporter": "how placements are read from the kubelet and written down",
    "reconstruct": "who holds what on a node: kept by whoever watches the pods",
    "vc-preoccupy": "as reconstruct, between an assignment and its report",
    "vc-assigned": "as reconstruct, by which name a pod is found",
    "vc-mutate": "a webhook that gives pods a scheduler and node affinity by their namespace",
}

_NOT_OURS: Mapping[str, str] = {
    "a call that fails is a node that fits, or one that does not": "VC-104 VC-105",
    "how much of an answer is read": "VC-109",
    "for which tasks an extender is called at all": "VC-110 VC-111 VC-112",
}

NOT_OURS = {case for listed in _NOT_OURS.values() for case in listed.split()}

DATA = data("kai-volcano.json.gz")
CASES: Sequence[Json] = DATA["cases"]
COMPARED = [case for case in CASES if case["kind"] not in NOT_A_RULE and case["id"] not in NOT_OURS]


def fitting(case: Json) -> Answer:
    """Whether a pod fits; where the case says so, also its zones and what it gets of them."""
    verdict, expected = evaluate(*_question(case)), case["expect"]
    ours: list[object] = [verdict.admitted]
    theirs: list[object] = [expected["verdict"] != "reject"]
    if expected.get("zones"):
        ours.append(sorted(verdict.placement.zones))
        theirs.append(expected["zones"])
    if "placement" in expected:
        ours.append(_held(verdict.placement))
        theirs.append(_by_zone(expected["placement"]))
    return ours, theirs


def spanning(case: Json) -> Answer:
    verdict = evaluate(*_question(case))
    return len(verdict.placement.zones) or None, case["expect"]["span"]


def scored(case: Json) -> Answer:
    """KAI's score is 100 through the number of zones, and 0 where there is nothing to rank."""
    node = DATA["fixtures"][case["nodes"]][case["node_name"]] or {"zones": []}
    verdict = evaluate(*_question({**case, "node": node}))
    points = case["expect"]["score"]
    return len(verdict.placement.zones), 100 // points if points else 0


def in_sequence(case: Json) -> Answer:
    """One pod after another is asked and charged, and gives back what it held when it goes."""
    node, held = _node(case), dict[str, Placement]()
    ours, theirs = list[object](), list[object]()
    for step in case["steps"]:
        if step["op"] == "release":
            node = _given(node, _held(held.pop(step["name"])))
        elif step["op"] == "charge":
            node = _given(node, _held_as_written(step["placement"]), sign=-1)
        else:
            answer = admit(node, _demand(step["pod"]))
            node, held[step["name"]] = charge(node, answer), answer.placement
            ours.append((answer.refusal is None, sorted(answer.placement.zones)))
            theirs.append((step["expect"]["verdict"] == "admit", step["expect"].get("zones", [])))
    return (ours, free_by_zone(node)), (theirs, _by_zone(case["expect"]["finalAvailable"]))


def preempting(case: Json) -> Answer:
    """Refused while all victims stay; with those gone that are to go, the zones of each pod that follows.

    Each zone has one victim, which holds what is not free. Nobody to evict means that all would not help.
    """
    node, demand = _question({"pod": THREE_CPUS, **case})
    expected, full = case["expect"], evaluate(node, demand).admitted
    victims = expected.get("evictions") or len(expected.get("evicted", ())) or len(node.zones)
    node = replace(
        node, zones=(*(zone.emptied() for zone in node.zones[:victims]), *node.zones[victims:]), stock=None
    )
    wanted = [step["expect"]["zones"] for step in case.get("steps", ()) if step["op"] == "schedule"]
    theirs = wanted or [expected.get("zones", [] if expected.get("verdict") == "reject" else [0])]
    ours = []
    for _ in theirs:
        answer = admit(node, demand)
        node = charge(node, answer)
        ours.append(sorted(answer.placement.zones))
    final = expected.get("finalAvailable")
    return (full, ours, final and free_by_zone(node)), (False, theirs, final and _by_zone(final))


def spread_at_most(case: Json) -> Answer:
    """At most one zone is what single-numa-node asks of the pod; more leaves it to the node's own policy."""
    most = case["annotation"]["kai.scheduler/max-numa-spread"]
    if case["pod"] is None:
        return _is_bad_intent(most), case["expect"]["admission"] == "deny"
    intent = Intent(Policy.SINGLE_NUMA_NODE, scope=Scope.POD) if most == "1" else NO_INTENT
    return evaluate(*_question(case), intent).admitted, case["expect"]["verdict"] == "admit"


def parsed(case: Json) -> Answer:
    expected, written = case["expect"], case["nrt"]
    if "order" in expected:
        read = _topology(zones=[_zone(name) for name in written["zoneNames"]])
        return [zone.name for zone in read.zones] if read else None, expected["order"]
    if "ids" in expected:
        each = (_topology(zones=[_zone(name)]) for name in written["names"])
        return [one and one.zones[0].id for one in each], expected["ids"]
    if "topology" in expected:
        return _topology(**written), expected["topology"]
    read = _topology(**{"zones": [_zone("node-0")], **written})
    return read and {"policy": read.policy, "scope": read.scope}, expected


def hinted(case: Json) -> Answer:
    (offer,) = cpu_manager.topology_hints(_machine(case), _cpus(case["request"]))
    every = hint_sets.listed(offer.possible)
    ours = [[list(members(mask)), bool(offer.preferred >> mask & 1)] for mask in every]
    return ours, case["expect"]["hints"]


def allocated(case: Json) -> Answer:
    given = cpu_manager.allocate(_machine(case), _cpus(case["request"]), bits(case["mask"]))
    return [] if isinstance(given, Refusal) else list(members(given[1])), case["expect"]["cpus"]


def merged(case: Json) -> Answer:
    """Of what is refused no affinity is kept, so there only the refusal counts."""
    decision = merge(
        Policy(case["policy"]), [_offer(hints) for hints in case["hints"]], NumaInfo(len(case["numaNodes"]))
    )
    mask, preferred = decision.affinity.mask, decision.affinity.preferred
    ours = mask is not None and (list(members(mask)), preferred)
    expected = case["expect"]
    return decision.admitted and ours, expected["admit"] and (expected["mask"], expected["preferred"])


def under_policy(case: Json) -> Answer:
    """Volcano's annotation, with its wish that the node has the very policy."""
    written, word = case["node"], case["pod"]["annotation"]
    zones = (
        zones_of({"zones": [_zone(f"node-{at}", cpu="4") for at in (0, 1)]}) if written["numatopo"] else ()
    )
    node = Node(
        "node",
        zones,
        Policy(written["TopologyManagerPolicy"] or "none"),
        cpu_manager=CpuManager(written["CPUManagerPolicy"] or "none"),
        memory_manager=MemoryManager.NONE,
    )
    demand = _demand({"qos": case["pod"]["qos"], "containers": [{"requests": {"cpu": "1"}}]})
    try:
        intent = intents.read({intents.VOLCANO_POLICY: word} if word else {}).intent(match=Match.EQUAL)
    except BadIntent:
        return False, case["expect"]["result"] != "reject"
    return evaluate(node, demand, intent or NO_INTENT).admitted, case["expect"]["result"] != "reject"


def predicated(case: Json) -> Answer:
    """A pod with Volcano's annotation on a node with the very policy."""
    cpus, policy = _machine(case), Policy(case["policy"])
    free = [count * MILLI for count in cpu_manager.cpus_per_zone(cpus.topology, cpus.free)]
    free[0] -= case["resReservedCpu"] * MILLI
    zones = (
        Zone(
            ZoneId(at),
            f"node-{at}",
            Resources({CPU: total * MILLI}),
            Resources({CPU: total * MILLI}),
            Resources({CPU: left}),
        )
        for at, (total, left) in enumerate(zip(cpus.topology.sizes, free, strict=True))
    )
    node = Node("node", tuple(zones), policy, memory_manager=MemoryManager.NONE)
    init, apps = (
        [{"requests": {"cpu": str(one)}} for one in case.get(key, ())]
        for key in ("initContainers", "containers")
    )
    demand = _demand({"qos": "Guaranteed", "initContainers": init, "containers": apps})
    verdict, expected = evaluate(node, demand, Intent(policy, match=Match.EQUAL)), case["expect"]
    zones_used = sorted(verdict.placement.zones)
    ours = verdict.admitted and (len(zones_used), zones_used if "zones" in expected else None)
    return ours, expected["verdict"] == "admit" and (expected["numaCount"], expected.get("zones"))


def ranked(case: Json) -> Answer:
    """The strategy that is Volcano's own, with the weight that Volcano multiplies by."""
    node = Node("node", zones_of({"zones": [_zone(f"node-{at}", cpu="1") for at in range(8)]}))
    counts = case["numaCounts"]
    zones = np.array([len(_in_zones(node, count).placement.zones) for count in counts.values()])
    values = np.broadcast_to(relative_values(Relative.NUMA_NODES, zones, zones >= 0), zones.shape)
    ours = {name: value * case["weight"] for name, value in zip(counts, values.tolist(), strict=True)}
    return ours, case["expect"]["scores"]


def with_devices(case: Json) -> Answer:
    if "numaCount" in case["expect"]:
        used: set[ZoneSet] = {(ZoneId(zone),) for zone in (*case["cpuNuma"], *case["gpuNuma"])}
        placement = Placement(kept=dict.fromkeys(used, Resources({CPU: MILLI})))
        return len(placement.zones), case["expect"]["numaCount"]
    resource = "nvidia.com/gpu"
    zones = [
        {
            "name": f"node-{at}",
            "allocatable": {resource: case["capacity"][at]},
            "available": {resource: case["free"][at]},
        }
        for at in case["capacity"]
    ]
    pod = {"qos": "Burstable", "containers": [{"requests": {resource: case["request"]}}]}
    verdict = evaluate(*_question({"node": {"policy": "restricted", "zones": zones}, "pod": pod}))
    return verdict.admitted, case["expect"].get("restricted", case["expect"].get("verdict")) == "admit"


def validated(case: Json) -> Answer:
    """Volcano asks for whole CPUs; whoever names the cpu in an intent wants them too."""
    zones = zones_of({"zones": [_zone(f"node-{at}", cpu="8", memory="64Gi") for at in (0, 1)]})
    node = Node("node", zones, Policy.SINGLE_NUMA_NODE)
    intent = intents.read({intents.POLICY: case["topologyPolicy"], intents.RESOURCES: CPU}).intent()
    demand = demands.of(pod_of(case))
    return evaluate(node, demand, intent or NO_INTENT).admitted, case["expect"]["allow"]


def called(case: Json) -> Answer:
    """The answer that has the case's outcome, as our door for Volcano writes it."""
    if not case["reply"]:
        return volcano.read_predicate(_predicate(case["expect"]))[1], "node"
    written, expected = case["reply"]["body"], case["expect"]
    if case["verb"] == "prioritize":
        answer = volcano.answer_prioritize(expected.get("added", {}))
    else:
        answer = volcano.answer_predicate(written["status"], Code(expected.get("code", Code.FITS)))
    return json.loads(answer), written


ANSWERS: Mapping[str, Callable[[Json], Answer]] = {
    "fit": fitting,
    "span": spanning,
    "score": scored,
    "sequence": in_sequence,
    "preempt": preempting,
    "max-numa-spread": spread_at_most,
    "nrt-parse": parsed,
    "vc-hints": hinted,
    "vc-allocate": allocated,
    "vc-merge": merged,
    "vc-policy": under_policy,
    "vc-predicate": predicated,
    "vc-score": ranked,
    "vc-gpu": with_devices,
    "vc-admission": validated,
    "vc-extender": called,
}


@pytest.fixture(scope="module")
def ledger(new_ledger: Callable[[str, Mapping[str, StrEnum]], Ledger]) -> Ledger:
    return new_ledger("KAI and Volcano", DIFFERENT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in COMPARED])
def test_case_agrees_or_differs_for_a_reason(case: Json, ledger: Ledger) -> None:
    ours, theirs = ANSWERS[case["kind"]](case)
    ledger.compare(case, ours=ours, theirs=theirs)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if "kubelet" in case])
def test_rules_agree_with_the_kubelet_where_a_case_has_it(case: Json) -> None:
    ours, theirs = ANSWERS[case["kind"]]({**case, "expect": case["kubelet"]})
    assert ours == theirs


def test_every_case_is_answered_or_left_out(ledger: Ledger) -> None:
    ledger.leave_out(len(CASES) - len(COMPARED))
    assert (len(CASES), len(COMPARED)) == (198, 167)
    assert not ANSWERS.keys() & NOT_A_RULE.keys()
    assert ANSWERS.keys() | NOT_A_RULE.keys() == {case["kind"] for case in CASES}


def test_only_known_cases_differ() -> None:
    assert DIFFERENT.keys() <= {case["id"] for case in COMPARED}
    assert {case["id"] for case in CASES} >= NOT_OURS


THREE_CPUS = {"qos": "Guaranteed", "containers": [{"requests": {"cpu": "3"}}]}


def _predicate(case: Json) -> bytes:
    """A call of predicate whose node has a certain value at a certain place."""
    value = case["value"]
    for step in reversed(case["requestPath"].split(".")[1:]):
        value = {step: value}
    task = {"UID": "uid", "Name": "pod", "Pod": {}}
    return json.dumps({"task": task, "node": {"Name": "node", **value}}).encode()


def _question(case: Json) -> tuple[Node, Demand]:
    return _node(case), _demand(case["pod"])


def _node(case: Json) -> Node:
    """A case's node, without what its configuration ignores.

    A Guaranteed pod must ask for some memory, and `_demand` lets it; where a case is not about memory, its
    manager is off.
    """
    ignored = {"type", *case.get("config", {}).get("ignoreList", ())}
    zones = zones_of({"zones": [_listed(zone, ignored) for zone in case["node"]["zones"]]})
    cpus, memory = managers(zones)
    return Node(
        "node",
        zones,
        Policy(case["node"].get("policy", "none")),
        Scope(case["node"].get("scope", "container")),
        cpus,
        memory if MEMORY in json.dumps(case.get("pod")) else MemoryManager.NONE,
    )


def _listed(zone: Json, ignored: Iterable[str]) -> Json:
    listed = zone["allocatable"].keys() - set(ignored)
    amounts = [
        {"name": name, "allocatable": zone["allocatable"][name], "available": zone["available"][name]}
        for name in listed
    ]
    return {"name": zone["name"], "resources": amounts}


def _demand(pod: Json) -> Demand:
    fill = {"Guaranteed": {CPU: "1m", MEMORY: "1"}, "Burstable": {MEMORY: "1"}}.get(pod["qos"], {})
    spec = {
        key: [{**one, **_amounts(pod["qos"], {**fill, **one["requests"]})} for one in pod.get(key, ())]
        for key in ("initContainers", "containers")
    }
    demand = demands.of(pod_of(spec))
    assert demand.qos == pod["qos"]
    return demand


def _amounts(qos: str, requests: Json) -> Json:
    limits = requests if qos == "Guaranteed" else {name: requests[name] for name in requests if "/" in name}
    return {"requests": requests, "limits": limits}


def _held(placement: Placement) -> Mapping[int, Resources]:
    return {
        zone: Resources({name: amount for name, amount in amounts.items() if name != MEMORY})
        for (zone, *_), amounts in placement.kept.items()
    }


def _held_as_written(placement: Iterable[Json]) -> Mapping[int, Resources]:
    return {int(one["zone"].rpartition("-")[2]): resources.parse(one["amount"]) for one in placement}


def _by_zone(written: Mapping[str, Json]) -> Mapping[int, Resources]:
    return {int(zone): resources.parse(amounts) for zone, amounts in written.items()}


def _given(node: Node, amounts: Mapping[int, Resources], *, sign: int = 1) -> Node:
    """The node with these amounts given back to its zones, or taken from them."""
    zones = (
        replace(
            zone, free=zone.free.plus({n: sign * a for n, a in amounts.get(zone.id, Resources()).items()})
        )
        for zone in node.zones
    )
    return replace(node, zones=tuple(zones), stock=None)


def _is_bad_intent(word: str) -> bool:
    try:
        intents.read({intents.POLICY: word}).intent()
    except BadIntent:
        return True
    return False


def _zone(name: str, **amounts: str) -> Json:
    listed = [
        {"name": resource, "capacity": amount, "allocatable": amount, "available": amount}
        for resource, amount in amounts.items()
    ]
    return {"name": name, "type": "Node", "resources": listed}


def _topology(**written: object) -> Topology | None:
    """What the decoder reads; None where it reports a mistake."""
    whole = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "node"},
    }
    try:
        return topology({**whole, **written})
    except BadTopology:
        return None


def _machine(case: Json) -> CpuState:
    """Volcano's CPUs on two zones, each a core and each zone a socket; none is reserved."""
    zone_of = {int(one): ZoneId(zone) for one, zone in case["cpuDetailNuma"].items()}
    cores = (Core(zone, zone, zone, bits([one])) for one, zone in zone_of.items())
    laid = machine.cpu_topology(cores, [ZoneId(0), ZoneId(1)])
    return CpuState(laid, DEFAULTS, 0, bits(case["available"]))


def _cpus(count: int) -> Step:
    return Step("c", Role.APP, cpu=count * MILLI)


def _offer(hints: Iterable[tuple[list[int], bool]]) -> ResourceHints:
    preferred = {bits(zones): wanted for zones, wanted in hints}
    return ResourceHints(
        "", hint_sets.of(preferred), hint_sets.of(mask for mask, wanted in preferred.items() if wanted)
    )


def _in_zones(node: Node, count: int) -> Verdict:
    """A node takes a pod that gets something of so many of its zones."""
    kept: dict[ZoneSet, Resources] = {(zone.id,): Resources({CPU: MILLI}) for zone in node.zones[:count]}
    return Verdict(None, permanent=False, placement=Placement(kept=kept), known=node.known)
