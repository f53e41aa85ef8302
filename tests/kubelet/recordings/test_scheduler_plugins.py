"""
The rules against NodeResourceTopologyMatch: every case of scheduler-plugins, restated as data.

That plugin filters for one policy and scores zones without placing anything, so it is stricter than the
kubelet in some places and looser in others. A case either agrees, or stands in `DIFFERENT` with the rule of
the kubelet that decides otherwise. What the plugin says of its own caches is no matter of one pod on one
node, and stands in `NOT_A_RULE`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from statistics import fmean

import pytest

from numalign.decision.evaluate import evaluate
from numalign.decision.scoring import Strategy, score
from numalign.kube.decode.nrt import topology
from numalign.kubelet.admit import admit, charge
from numalign.model import demand as demands
from numalign.model import resources
from numalign.model.demand import Demand
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.node import DEFAULT_MAX_ZONES, Node, managers
from numalign.model.placement import Grant, Placement, ZoneSet
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from tests.kubelet.recordings.cases import Json, data, free_by_zone, pod_of, zones_of
from tests.kubelet.recordings.conftest import Ledger

Answer = tuple[object, object]
"""What the rules say of a case, and what the plugin says."""


class Reason(StrEnum):
    """Why the rules answer otherwise: what the kubelet does and where, or what else decides."""

    INIT_CPUS = (
        "later containers use the CPUs of finished init containers again, and every affinity must cover the "
        "zones of what is left of them (cpumanager/policy_static.go, generateCPUTopologyHints)"
    )
    SIDECARS = "a sidecar keeps its CPUs beside the containers after it (cpumanager/policy_static.go)"
    FRACTIONS = "without a whole number of CPUs a container gets none of its own (guaranteedCPUs)"
    OVERHEAD = "the managers count what containers ask, never a pod's overhead (podGuaranteedCPUs)"
    UNLISTED = "a manager whose policy is none lists nothing and aligns nothing (policy_none.go of both)"
    NOWHERE = "memory that no zone has cannot be reserved (memorymanager/policy_static.go, Allocate)"
    LIMITS = "the device manager reads limits; the API server takes no device request without one"
    EVERY_POLICY = (
        "every policy refuses what it cannot align (restricted) or give (Allocate of policy_static.go), and "
        "leads to a placement that can be scored; the plugin looks at single-numa-node alone"
    )
    LOWEST_MASK = "of masks that are as wide, the lowest is taken, however far or bare (HintMerger.compare)"
    SPREAD = "a resource comes from the zones that have it; no zone must have all (topologymanager/policy.go)"
    REAL_ZONE = "the zone that the kubelet takes is scored, where the plugin assumes the worst"
    ZERO = "nothing is aligned, or scored, of which nothing is request"
    DEVICE_NAMES = "what a zone lists is a device, with a domain in its name or without"
    ZONE_NAMES = "any name that ends in a number that Linux knows is that zone's"
    NO_ZONES = "nothing is known of a node without zones: no rule refuses it, and none scores it"
    REPORTED = "what cannot be read is reported, where the plugin takes a default in silence"
    AS_WRITTEN = "how many zones a kubelet allows has no bound (topologymanager/policy_options.go)"
    SCALE = "a score stays between 0 and 100"
    FRESHNESS = "how old a topology may be is no matter of one pod on one node"
    ALL_ZONES = "only zones that give are charged, where the plugin's cache charges every zone"
    GROUPS = (
        "a zone of which a container has memory by itself shares no block with other zones "
        "(memorymanager/policy_static.go)"
    )
    MISPRINT = "the row contradicts the rows beside it in the plugin's own table"


_DIFFERENT: Mapping[Reason, str] = {
    Reason.INIT_CPUS: "F-067 F-068 F-086 F-087 P-044 P-045 SD-029",
    Reason.SIDECARS: "FD-024 FD-026",
    Reason.FRACTIONS: "FD-016",
    Reason.OVERHEAD: "FD-020",
    Reason.UNLISTED: "FD-011 FD-012 FD-013",
    Reason.NOWHERE: "container_scope_subtract-8",
    Reason.LIMITS: "F-033 F-034",
    Reason.EVERY_POLICY: "FD-005 FD-006 FD-007 SD-005",
    Reason.LOWEST_MASK: ("least_numa_required-5 least_numa_required-6 least_numa_required-9"),
    Reason.SPREAD: "SD-021 SD-022 SD-023",
    Reason.REAL_ZONE: "SD-008 SD-009 SD-010",
    Reason.ZERO: "SD-015",
    Reason.DEVICE_NAMES: "FD-030",
    Reason.ZONE_NAMES: (
        "F-047 FD-032 zone_name_to_id-2 zone_name_to_id-4 zone_name_to_id-5 zone_name_to_id-6 "
        "zone_name_to_id-7"
    ),
    Reason.NO_ZONES: "FD-033 SD-003",
    Reason.REPORTED: (
        "topology_manager_config-6 topology_manager_config-7 topology_manager_config-8 "
        "topology_manager_config-9"
    ),
    Reason.AS_WRITTEN: "topology_manager_config-11",
    Reason.SCALE: "SD-028",
    Reason.FRESHNESS: "FD-002 FD-003 SD-004",
    Reason.ALL_ZONES: "C-002 C-003 C-004 overreserve_update_nrt-0",
    Reason.MISPRINT: "row-22",
}

DIFFERENT = {case: reason for reason, listed in _DIFFERENT.items() for case in listed.split()}

NOT_A_RULE: Mapping[str, str] = {
    "pod_fingerprint": "names the pods that a topology accounts for, whatever they hold",
    "C-009": "when the plugin's cache drops what it reserved",
    "C-010": "when the plugin's cache drops what it reserved",
    "C-011": "which pods make the plugin's cache distrust a topology",
    "C-012": "what the plugin's cache keeps of a node without topology",
    "C-013": "when the plugin's cache drops what it reserved",
}

DATA = data("scheduler-plugins.json.gz")

SECTIONS: Mapping[str, list[Json]] = {
    **{section: listed for section, listed in DATA.items() if isinstance(listed, list)},
    **{
        kind: [{**vector, "id": f"{kind}-{at}", "zone": vector.get("id")} for at, vector in enumerate(listed)]
        for kind, listed in DATA["vectors"].items()
    },
    "matrix": [
        {"id": f"row-{number}", "init": init, "inits": inits, "app": app, "apps": apps, "state": state}
        for number, inits, init, apps, app, state in DATA["coverage_matrix_TESTS_md"]["rows"]
    ],
}

PLENTY = 2**62
"""More than any pod asks: how much a node has as a whole is the matter of another plugin."""


def filtered(case: Json) -> Answer:
    node = _node(case["nrt"], listed=case["node_allocatable"])
    return evaluate(node, _demand(case)).admitted, case["expected"]["feasible"]


def preempting(case: Json) -> Answer:
    """Victims whose zones are known give back what they hold; then the question is the usual one."""
    node = _node(case["nrt"], listed=case["node_allocatable"])
    if case["preemption_mode"] == "Enabled":
        node = _without(node, case["victims"], case["numa_placement"] or {})
    return evaluate(node, _demand(case)).admitted, case["expected"]["feasible"]


def placed(case: Json) -> Answer:
    """The best of two nodes; where several may be the best, any of them will do."""
    demand, strategy = _demand(case), Strategy(case["strategy"].split()[0])
    written = dict.fromkeys(case["derived"]["filter"]) | {nrt["name"]: nrt for nrt in case["nrts"]}
    nodes = {name: _node(nrt, listed=case["node_allocatable"]) for name, nrt in written.items()}
    best = _best({name: _score(strategy, node, demand) for name, node in nodes.items()})
    wanted = set(case["expected"]["any_of_nodes"])
    return wanted if best and best <= wanted else best, wanted


def scored(case: Json) -> Answer:
    """A node that refuses the pod counts 0; one without topology has no score."""
    demand, strategy, expected = _demand(case), Strategy(case["strategy"]), case["expected"]
    nodes = {nrt["name"]: _node(nrt) for nrt in case.get("nrts") or [case.get("nrt")] if nrt}
    ours = {name: _score(strategy, node, demand, case["weights"]) or 0 for name, node in nodes.items()}
    if "best_node" in expected:
        return {name: ours[name] for name in _best(ours)}, expected["best_node"] or {}
    return ours, expected.get("scores") or dict.fromkeys(ours or ["unknown"], expected["score"])


def fewest_zones(case: Json) -> Answer:
    """The zones that a pod gets under best-effort, and the score that tells how close they are."""
    node = _node(_topology(case["numa_nodes"]))
    demand = demands.of(pod_of(_guaranteed(case["request"])))
    ids, close = case["expected"]["numa_ids"], case["expected"]["min_distance"]
    verdict, value = evaluate(node, demand), _score(Strategy.LEAST_NUMA_NODES, node, demand)
    ours = (verdict.placement.zones, value) if verdict.admitted else None
    return ours, (set(ids), 100 - 12 * len(ids) + 6 * close) if ids else None


def scaled(case: Json) -> Answer:
    """All zones are equally far, but for one beyond those used; it is nearer unless they are optimal."""
    used = case["numa_nodes_needed"]
    costs = {str(zone): 20 for zone in range(used)} | {str(used): 20 if case["optimal_distance"] else 5}
    node = replace(_far([costs] * (used + 1)), max_zones=case["max_numa_nodes"])
    return _score_of_zones(node, range(used)), case["expected"]


def closest(case: Json) -> Answer:
    """Of the sets of zones that score best, the mean distance."""
    costs = {one["id"]: one.get("costs", {}) for one in case["numa_nodes"]}
    node = _far([costs[zone] for zone in sorted(costs)])
    scores = {tuple(zones): _score_of_zones(node, zones) for zones in case["combinations"]}
    best = [zones for zones, value in scores.items() if value == max(scores.values())]
    means = {fmean(costs[one].get(str(other), 255) for one in zones for other in zones) for zones in best}
    return [round(value, 6) for value in means], [case["expected_min_avg"]]


def kept_per_node(case: Json) -> Answer:
    """A node whose zones list CPUs, memory and huge pages aligns these and nothing else."""
    node = _node(_topology([{"id": 0, "available": {"cpu": "8", "memory": "8Gi", "hugepages-1Gi": "1Gi"}}]))
    return not node.aligns(case["resource"]), case["host_level"]


def left_in_one_zone(case: Json) -> Answer:
    node = _node(_topology(case["numa_nodes"], policy=Policy.SINGLE_NUMA_NODE))
    bag, expected = case["request"], case["expected"]
    limits = bag if case["qos"] == "Guaranteed" else {name: bag[name] for name in bag if "/" in name}
    pod = pod_of({"containers": [{"requests": bag, "limits": limits}]})
    answer = admit(node, demands.of(pod))
    ours = (answer.refusal is not None, free_by_zone(charge(node, answer)))
    return ours, (expected["error"], _available(expected["numa_nodes"]))


def left_in_several_zones(case: Json) -> Answer:
    node = _node(_topology(case["numa_nodes"]))
    answer = admit(node, demands.of(pod_of(_guaranteed(case["request"]))))
    return free_by_zone(charge(node, answer)), _available(case["expected"])


def left_by_reserved_pods(case: Json) -> Answer:
    node = _node(_topology(_by_id(case["zones_available_before"]), policy=Policy.SINGLE_NUMA_NODE))
    for pod in case["reserved_pods"]:
        node = charge(node, admit(node, demands.of(pod_of(_guaranteed(*pod["containers"])))))
    return free_by_zone(node), _available(_by_id(case["zones_available_after"]))


def configured(case: Json) -> Answer:
    zone = {"name": "node-0", "type": "Node", "resources": []}
    try:
        read = topology({**_OBJECT, "zones": [zone], **case["nrt"]})
    except BadTopology:
        return None, case["expected"]
    ours = {"policy": read.policy, "scope": read.scope, "max_numa_nodes": read.max_zones}
    return ours, case["expected"]


def numbered(case: Json) -> Answer:
    zone = {"name": case["name"], "type": "Node", "resources": []}
    try:
        return topology({**_OBJECT, "zones": [zone]}).zones[0].id, case["zone"]
    except BadTopology:
        return None, case["zone"]


def total_request(case: Json) -> Answer:
    init = [Container("i", Role.INIT, _pair(pair)) for pair in case["init_containers"]]
    apps = [Container("a", Role.APP, _pair(pair)) for pair in case["containers"]]
    pod = Pod("p", containers=(*init, *apps), overhead=_pair(case["overhead"] or (0, 0)))
    return demands.of(pod).total, _pair(case["expected"])


def row_of_matrix(case: Json) -> Answer:
    """The plugin's table of situations, on two zones of ten CPUs."""
    ten = {"cpu": "10", "memory": "64Gi"}
    node = _node(_topology([{"id": at, "available": ten} for at in (0, 1)], policy=Policy.SINGLE_NUMA_NODE))
    inits, apps = (
        [
            {"cpu": str(cpu), "memory": "1Gi"}
            for cpu in _CPUS[case[amount]][: 1 if case[count] == "1" else None]
        ]
        for amount, count in (("init", "inits"), ("app", "apps"))
    )
    demand = demands.of(pod_of(_guaranteed(*apps, init=inits)))
    return evaluate(node, demand).admitted, case["state"] == "Running"


def replayed(case: Json) -> Answer:
    """A scenario of the plugin's cache, pod after pod, as the kubelet would take them."""
    zone, scopes, pods = STORIES[case["id"]]
    empty = _node(_topology([{"id": at, "available": zone} for at in (0, 1)], policy=Policy.SINGLE_NUMA_NODE))
    states, now = [], empty
    for scope, pod in zip(scopes, pods, strict=True):
        answer = admit(replace(now, scope=scope), demands.of(pod_of(pod))) if pod else None
        now = charge(now, answer) if answer else empty
        states.append("deleted" if answer is None else "pending" if answer.refusal else "scheduled")
    theirs = [state if state in ("pending", "deleted") else "scheduled" for state in case["expected"]]
    return states, theirs


ANSWERS: Mapping[str, Callable[[Json], Answer]] = {
    "filter": filtered,
    "filter_derived": filtered,
    "filter_preemption": preempting,
    "placement": placed,
    "score": scored,
    "score_derived": scored,
    "cache_scenarios": replayed,
    "least_numa_required": fewest_zones,
    "least_numa_normalize": scaled,
    "least_numa_min_distance": closest,
    "host_level_resource": kept_per_node,
    "container_scope_subtract": left_in_one_zone,
    "multi_numa_subtract": left_in_several_zones,
    "overreserve_update_nrt": left_by_reserved_pods,
    "topology_manager_config": configured,
    "zone_name_to_id": numbered,
    "pod_effective_request": total_request,
    "matrix": row_of_matrix,
}

ANSWERED = [
    pytest.param(section, case, id=case["id"])
    for section in ANSWERS
    for case in SECTIONS[section]
    if case["id"] not in NOT_A_RULE
]


@pytest.fixture(scope="module")
def ledger(new_ledger: Callable[[str, Mapping[str, StrEnum]], Ledger]) -> Ledger:
    return new_ledger("scheduler-plugins", DIFFERENT)


@pytest.mark.parametrize(("section", "case"), ANSWERED)
def test_case_agrees_or_differs_for_a_reason(section: str, case: Json, ledger: Ledger) -> None:
    ours, theirs = ANSWERS[section](case)
    ledger.compare(case, ours=ours, theirs=theirs)


def test_every_case_is_answered_or_left_out(ledger: Ledger) -> None:
    left_out = [
        case["id"]
        for section, listed in SECTIONS.items()
        for case in listed
        if {section, case["id"]} & NOT_A_RULE.keys()
    ]
    ledger.leave_out(len(left_out))
    assert SECTIONS.keys() - ANSWERS.keys() == SECTIONS.keys() & NOT_A_RULE.keys()
    assert len(ANSWERED) + len(left_out) == sum(map(len, SECTIONS.values())) == 366


def test_only_known_cases_differ() -> None:
    assert DIFFERENT.keys() <= {param.id for param in ANSWERED}


BURSTABLE_16 = {"containers": [{"requests": {"cpu": "16", "memory": "24Gi"}}]}
TWO_NICS = {"containers": [{"requests": {"vendor/nic1": "2"}, "limits": {"vendor/nic1": "2"}}]}


def _guaranteed(*containers: Json, init: Iterable[Json] = ()) -> Json:
    inits, apps = ([{"requests": one, "limits": one} for one in each] for each in (init, containers))
    return {"initContainers": inits, "containers": apps}


SIXTEEN, THIRTY = (_guaranteed({"cpu": cpu, "memory": "4Gi"}) for cpu in ("16", "30"))
TWENTY_FOUR, TWICE = (_guaranteed(*[{"cpu": "24", "memory": "4Gi"}] * count) for count in (1, 2))
GONE: Json = {}

# What the cache tests ask, pod after pod: what each of two zones has, the scope at each step, and the pods.
_CONTAINER = (Scope.CONTAINER,) * 3
_BIG = {"cpu": "30", "memory": "60Gi"}
STORIES: Mapping[str, tuple[Json, Sequence[Scope], Sequence[Json]]] = {
    "C-001": (_BIG, _CONTAINER[:2], (BURSTABLE_16, BURSTABLE_16)),
    "C-002": ({"vendor/nic1": "2"}, _CONTAINER[:2], (TWO_NICS, TWO_NICS)),
    "C-003": (_BIG, _CONTAINER[:2], (SIXTEEN, SIXTEEN)),
    "C-004": (_BIG, _CONTAINER, (SIXTEEN, GONE, SIXTEEN)),
    "C-005": (_BIG, _CONTAINER[:2], (SIXTEEN, SIXTEEN)),
    "C-006": (_BIG, _CONTAINER, (THIRTY, GONE, SIXTEEN)),
    "C-007": (_BIG, _CONTAINER[:2], (TWENTY_FOUR, TWENTY_FOUR)),
    "C-008": (_BIG, (Scope.POD, Scope.CONTAINER), (TWICE, TWICE)),
}

# What the words of the plugin's table come to on two zones of ten CPUs; a single container takes the first.
_CPUS: Mapping[str, Sequence[int]] = {
    "-": (),
    "*": (1,),
    "R<NUMA": (4, 4),
    "SUM<NUMA": (3, 3),
    "NUMA<SUM<Node,R<NUMA": (8, 8),
    "SUM>Node,R<NUMA": (8, 8, 8),
    "NUMA<R<Node": (15, 1),
}

_EVERYWHERE = (CPU, MEMORY, "pods", "ephemeral-storage")
_OBJECT = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "node"},
}
_LEGACY = {
    f"{word}{level}Level": (policy, scope)
    for word, policy in (
        ("SingleNUMANode", Policy.SINGLE_NUMA_NODE),
        ("Restricted", Policy.RESTRICTED),
        ("BestEffort", Policy.BEST_EFFORT),
    )
    for level, scope in (("Pod", Scope.POD), ("Container", Scope.CONTAINER))
}


def _node(written: Json | None, *, listed: Iterable[str] | None = None) -> Node:
    """A node from its topology; of what it or a zone lists it has plenty as a whole, and of nothing else.

    The fixtures say what is free and seldom what is allocatable, so the managers are on for what there is.
    """
    zones = zones_of(written or {})
    policy, scope, most = _settings(written or {})
    cpus, memory = managers(replace(zone, allocatable=zone.capacity) for zone in zones)
    names = {*(listed or ()), *(name for zone in zones for name in zone.capacity.positive()), *_EVERYWHERE}
    totals = None if listed is None else Resources(dict.fromkeys(names, PLENTY))
    return Node("node", zones, policy, scope, cpus, memory, totals=totals, max_zones=most)


def _settings(written: Json) -> tuple[Policy, Scope, int]:
    """Policy, scope and the most zones: attributes, else the deprecated list, else the defaults."""
    first = next(iter(written.get("topologyPolicies") or ()), "")
    policy, scope = _LEGACY.get(first, (Policy.NONE, Scope.CONTAINER))
    stated = {
        one["name"].removeprefix("topologyManager"): one["value"] for one in written.get("attributes") or ()
    }
    return (
        next((word for word in Policy if word == stated.get("Policy")), policy),
        next((word for word in Scope if word == stated.get("Scope")), scope),
        int(stated.get("MaxNUMANodes", DEFAULT_MAX_ZONES)),
    )


def _topology(zones: Iterable[Json], *, policy: Policy = Policy.BEST_EFFORT) -> Json:
    """A topology of zones of which only id, free amounts and costs are stated."""
    return {
        "attributes": [{"name": "topologyManagerPolicy", "value": policy.value}],
        "zones": [
            {
                "name": f"node-{zone['id']}",
                "resources": [{"name": name, "available": free} for name, free in zone["available"].items()],
                "costs": [
                    {"name": f"node-{other}", "value": cost}
                    for other, cost in (zone.get("costs") or {}).items()
                ],
            }
            for zone in zones
        ],
    }


def _demand(case: Json) -> Demand:
    """The demand of a case's pod, whose class must be the one that the case names."""
    demand = demands.of(pod_of(case["pod"]))
    assert demand.qos == case.get("qos_actual", demand.qos)
    return demand


def _score(
    strategy: Strategy, node: Node, demand: Demand, weights: Mapping[str, int] | None = None
) -> int | None:
    """The score of the placement that the kubelet would make; None where it would make none."""
    verdict = evaluate(node, demand)
    return score(strategy, node, demand, verdict.placement, weights or {}) if verdict.admitted else None


def _best(scores: Mapping[str, int | None]) -> set[str]:
    known = {name: value for name, value in scores.items() if value is not None}
    return {name for name, value in known.items() if value == max(known.values())}


def _far(costs: Sequence[Json]) -> Node:
    """A node of one CPU in each zone, with these costs from zone to zone."""
    return _node(
        _topology({"id": at, "available": {"cpu": "1"}, "costs": one} for at, one in enumerate(costs))
    )


def _score_of_zones(node: Node, zones: Iterable[int]) -> int:
    """The score of a pod that has one CPU in each of these zones."""
    amounts: dict[ZoneSet, Resources] = {(ZoneId(zone),): Resources({CPU: MILLI}) for zone in zones}
    request = Resources({CPU: MILLI * len(amounts), MEMORY: 1})
    demand = demands.of(Pod("pod", containers=(Container("c", Role.APP, request, request),)))
    placement = Placement((Grant("c", Role.APP, None, preferred=True, amounts=amounts),), amounts)
    return score(Strategy.LEAST_NUMA_NODES, node, demand, placement)


def _without(node: Node, victims: Iterable[Json], zones: Mapping[str, int]) -> Node:
    """The node with the victims' containers gone, as far as their zones are known."""
    free = {zone.id: zone.free for zone in node.zones}
    for victim in victims:
        for container in victim["containers"]:
            zone = zones.get(f"{victim['namespace']}/{victim['name']}/{container['name']}")
            if zone is not None:
                free[ZoneId(zone)] = free[ZoneId(zone)].plus(resources.parse(container["requests"]))
    left = tuple(replace(zone, free=free[zone.id]) for zone in node.zones)
    return replace(node, zones=left, stock=None)


def _by_id(available: Mapping[str, Json]) -> list[Json]:
    return [{"id": int(name.removeprefix("node-")), "available": free} for name, free in available.items()]


def _available(zones: Iterable[Json]) -> Mapping[int, Resources]:
    return {zone["id"]: resources.parse(zone["available"]) for zone in zones}


def _pair(amounts: Sequence[int]) -> Resources:
    return Resources(dict(zip((CPU, MEMORY), amounts, strict=True)))
