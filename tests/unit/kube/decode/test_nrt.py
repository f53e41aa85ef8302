"""NodeResourceTopology, as exporters write it, with what Koordinator annotates, and as they should not."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube import kinds
from numalign.kube.decode.fingerprints import Fingerprint, Method
from numalign.kube.decode.koordinator import CPU_POLICY, CPU_TOPOLOGY, NO_FACTS, CpuFacts, cpu_facts
from numalign.kube.decode.nodes import join
from numalign.kube.decode.nrt import Topology, topology
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager
from numalign.model.options import CpuOption
from numalign.model.resources import Resources, ZoneId
from tests.worlds import notation
from tests.worlds.notation import table
from tests.worlds.objects import Json, mistakes

V1ALPHA2 = "topology.node.k8s.io/v1alpha2"


def resource(name: str, capacity: object, allocatable: object, available: object) -> Json:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


def zone(name: object = "node-0", *resources: Json, **fields: object) -> Json:
    return {"name": name, "type": "Node", "resources": list(resources), **fields}


def raw(*zones: object, **fields: object) -> Json:
    return {"apiVersion": V1ALPHA2, "kind": "NodeResourceTopology", "metadata": {"name": "n"},
        "zones": list(zones), **fields}  # fmt: skip


def attributes(**values: object) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]


def attribute_values(**values: object) -> Json:
    return {"attributes": attributes(**values)}


def cost(name: object, value: object) -> Json:
    return {"name": name, "value": value}


def test_zones_have_ids_amounts_and_costs() -> None:
    costs = [cost("node-3", 10), cost("node-0", 31), cost("node-9", 40)]
    written = raw(
        zone("node-3", resource("nvidia.com/gpu", 2, 2, "1"), costs=costs),
        zone("node-0", resource("cpu", "40", "38", "28"), resource("memory", "4Gi", "3Gi", "2Gi")),
        attributes=attributes(topologyManagerPolicy="restricted", topologyManagerScope="pod"),
    )
    zones = (
        notation.zone("cpu=40/38/28 mem=4Gi/3Gi/2Gi", at=0),
        replace(notation.zone("gpu=2/2/1", at=3), costs=((ZoneId(0), 31), (ZoneId(3), 10))),
    )
    assert topology(written) == Topology("n", zones, Policy.RESTRICTED, Scope.POD, 8)


def levels(*words: str) -> Json:
    return {"topologyPolicies": [*words]}


@pytest.mark.parametrize(("fields", "policy", "scope", "most"), table([
    # what it shows, what is written, and the policy, the scope and the most zones that are read
    ("nothing", {}, "none", "container", 8),
    ("the most zones", attribute_values(topologyManagerMaxNUMANodes="16"), "none", "container", 16),
    ("single, pod", levels("SingleNUMANodePodLevel"), "single-numa-node", "pod", 8),
    ("restricted, pod", levels("RestrictedPodLevel"), "restricted", "pod", 8),
    ("only the first word", levels("foobar", "RestrictedPodLevel"), "none", "container", 8),
    ("an attribute wins, field by field",
        {**levels("SingleNUMANodePodLevel"), **attribute_values(topologyManagerPolicy="none")},
        "none", "pod", 8),
]))  # fmt: skip
def test_policy_and_scope_are_read(fields: Json, policy: str, scope: str, most: int) -> None:
    read = topology(raw(zone(), **fields))
    assert (read.policy, read.scope, read.max_zones) == (policy, scope, most)


def test_the_older_version_is_read() -> None:
    written = {**raw(zone()), "apiVersion": "topology.node.k8s.io/v1alpha1"}
    assert topology(written).zones == topology(raw(zone())).zones


@pytest.mark.parametrize(
    ("name", "number"),
    [("node-0", 0), ("zone-3", 3), ("numa-node-1", 1), ("Node_12", 12), ("cell7", 7), ("2", 2)],
)
def test_a_zone_has_the_number_at_the_end_of_its_name(name: str, number: int) -> None:
    [read] = topology(raw(zone(name))).zones
    assert (read.id, read.name) == (number, name)


def test_zones_of_other_types_are_not_numa_zones() -> None:
    read = topology(raw(zone("socket", type="Socket", resources="whatever"), zone("node-1")))
    assert [each.name for each in read.zones] == ["node-1"]


@pytest.mark.parametrize("written", [str, int, float], ids=["texts", "numbers", "decimals"])
def test_amounts_and_distances_may_be_texts_or_numbers(written: type) -> None:
    distances = [cost("node-0", 10), cost("node-1", 21 if written is int else "21")]
    listed = [resource("cpu", *map(written, (4, 3, 2))), resource("x.io/a", *map(written, (2, 2, 3)))]
    [read] = topology(raw(zone("node-0", *listed, costs=distances))).zones
    assert read == replace(notation.zone("cpu=4/3/2 x.io/a=2", at=0), costs=((ZoneId(0), 10),))


def test_free_is_at_most_allocatable() -> None:
    [read] = topology(raw(zone("node-0", resource("cpu", 8, 6, 8)))).zones
    assert (read.capacity, read.free) == (Resources({"cpu": 8000}), Resources({"cpu": 6000}))


def amounts(**columns: object) -> Json:
    return raw(zone("node-0", {"name": "cpu", "capacity": 8, "allocatable": 8, "available": 8, **columns}))


NONE, ONE = "pfp0v001ef46db3751d8e999", "pfp0v0019e0420efb37746c6"
FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
LEGACY = {"name": "n", "annotations": {"topology.node.k8s.io/fingerprint": ONE}}


@pytest.mark.parametrize(("fields", "expected"), table([
    ("with exclusive resources",
        {"attributes": attributes(**{METHOD: "with-exclusive-resources", FINGERPRINT: ONE})},
        Fingerprint(ONE, Method.WITH_EXCLUSIVE_RESOURCES)),
    ("an attribute wins", {"metadata": LEGACY, "attributes": attributes(**{FINGERPRINT: NONE})},
        Fingerprint(NONE, Method.ALL)),
    ("an attribute that cannot be read wins",
        {"metadata": LEGACY, "attributes": attributes(**{FINGERPRINT: "new"})}, None),
    ("twice alike", {"attributes": attributes(**{FINGERPRINT: ONE}) * 2}, Fingerprint(ONE, Method.ALL)),
    ("twice",
        {"attributes": [*attributes(**{FINGERPRINT: ONE}), *attributes(**{FINGERPRINT: NONE}),
                *attributes(**{FINGERPRINT: ONE})]}, None),
    ("an annotation that is none",
        {"metadata": {"name": "n", "annotations": {"topology.node.k8s.io/fingerprint": [1]}}}, None),
]))  # fmt: skip
def test_an_unreadable_fingerprint_leaves_the_zones(fields: Json, expected: Fingerprint | None) -> None:
    read = topology({**raw(zone()), **fields})
    assert (read.fingerprint, read.zones) == (expected, topology(raw(zone())).zones)


OTHER = ONE.replace("v001", "v002")
KNOWN = "expected pfp0v001 and 16 hexadecimal digits, by method all or with-exclusive-resources"


@pytest.mark.parametrize(("value", "method", "messages"), table([
    # what it shows            value             method        the mistake
    ("an unknown method",       ONE,              "some",       f'"{ONE}" by method "some"'),
    ("a list as the method",    ONE,              ["all"],      f'"{ONE}" by method a list'),
    ("in capitals",             ONE.upper(),      "all",        f'"{ONE.upper()}" by method "all"'),
    ("another version",         OTHER,            "all",        f'"{OTHER}" by method "all"'),
    ("a long text",             "x" * 9_000_000,  "y" * 9_000,  f'"{"x" * 61}..." by method "{"y" * 61}..."'),
]))  # fmt: skip
def test_an_incomparable_fingerprint_is_odd(value: object, method: object, messages: str) -> None:
    written = {FINGERPRINT: value} if method is None else {FINGERPRINT: value, METHOD: method}
    read = topology({**raw(zone()), "attributes": attributes(**written)})
    assert [*map(str, read.odd)] == [f"attributes: {messages} is not a known fingerprint of pods: {KNOWN}"]
    assert (read.fingerprint, read.uncertain) == (None, frozenset())


AT = "zones[0].resources[0]"
GPU = resource("x.io/gpu", 1, 1, 1)
CORE = "koordinator.sh/gpu-core"


def all_to_all(count: int) -> list[Json]:
    names = [f"node-{number}" for number in range(count)]
    return [zone(name, costs=[cost(other, 10) for other in names]) for name in names]


@pytest.mark.parametrize(("written", "expected"), table([
    # situation: (topology, every mistake in order)
    ("a name without a number", raw(zone("left")),
        ['zones[0].name: "left" does not end in the number of a zone, such as node-0']),
    ("a huge number", raw(zone("node-1024")),
        ['zones[0].name: "node-1024" has a number above 1023, the highest NUMA node ID of Linux']),
    ("more CPUs than there are, over all zones",
        raw(*(zone(f"node-{at}", resource("cpu", "4097", "1", "1")) for at in (0, 1))),
        ["zones: have 8194 CPUs in total, and Linux supports 8192"]),
    ("a cost twice", raw(zone(costs=[cost("node-0", 10), cost("node-0", 20)])),
        ['zones[0].costs[1]: "node-0" is listed twice: see zones[0].costs[0]']),
    ("too few zones at most", raw(zone(), attributes=attributes(topologyManagerMaxNUMANodes="1")),
        ["attributes[0].value: must be at least 2, not 1"]),
    ("an attribute of two minds",
        raw(zone(), attributes=[attributes(topologyManagerScope=each)[0] for each in ("pod", "container")]),
        ['attributes[1].value: "container" contradicts attributes[0].value: "pod"']),
    # too much: the only mistake
    ("too many zones", raw(*all_to_all(65)),
        ["zones: 65 zones of type Node are more than the 64 that are allowed"]),
    ("too many zones of other types", raw(zone(), *[zone(type="Core")] * 4096),
        ["zones: 4097 zones are more than the 4096 that are allowed"]),
    ("too many distances", raw(zone(), zone("node-1", costs=[cost("node-0", 10)] * 4097)),
        ["zones: 4097 costs are more than the 4096 that are allowed"]),
    ("too many resources", raw(*[zone(f"node-{at}", *[resource("cpu", 1, 1, 1)] * 2049) for at in (0, 1)]),
        ["zones: 4098 resources are more than the 4096 that are allowed"]),
    ("too many attributes", raw(zone(), attributes=[{"name": "a", "value": "b"}] * 257),
        ["attributes: 257 entries are more than the 256 that are allowed"]),
    ("too many characters in a name", raw(zone(f"{'n' * 253}-0")),
        [f'zones[0].name: "{"n" * 61}..." is too long: at most 253 characters are allowed']),
]))  # fmt: skip
def test_mistakes_have_their_places(written: Json, expected: list[str]) -> None:
    assert mistakes(BadTopology, topology, written) == expected


@pytest.mark.parametrize(("written", "odd", "uncertain", "listed"), table([
    # situation: (topology, every mistake in order, the uncertain resources, and those that zones list)
    ("a zone without a number", raw(zone("node-0", GPU, resource("cpu", 4, 4, 4)), zone("node--1", GPU)),
        ['zones[1].name: "node--1" does not end in the number of a zone, such as node-0'],
        {"x.io/gpu"}, {"cpu"}),
    ("a number twice", raw(zone("node-0", GPU), zone("node-1", GPU), zone("zone-1", GPU), zone("node-0")),
        ['zones[2].name: "zone-1" has the same number as zones[1].name: 1',
            'zones[3].name: "node-0" has the same number as zones[0].name: 0'], {"x.io/gpu"}, set()),
    ("a resource twice", raw(zone("node-0", GPU, resource("cpu", 1, 1, 1), resource("cpu", 1, 1, 1))),
        ['zones[0].resources[2]: "cpu" is listed twice: see zones[0].resources[1]'], {"cpu"}, {"x.io/gpu"}),
    ("no amounts", raw(zone("node-0", {"name": "cpu"}), zone("node-1", resource("cpu", 1, 1, 1), GPU)),
        [f"{AT}.capacity: is missing", f"{AT}.allocatable: is missing", f"{AT}.available: is missing"],
        {"cpu"}, {"x.io/gpu"}),
    ("a negative free amount", amounts(available=-1),
        [f'{AT}.available: "-1" is negative: an amount is zero or more'], {"cpu"}, {"cpu"}),
    ("more than there is", amounts(allocatable=9), [f"{AT}.allocatable: 9 is more than the capacity of 8"],
        {"cpu"}, set()),
    ("CPUs in millicores", amounts(name="cpu", capacity="64000", allocatable="64000", available="64000"),
        [f"{AT}.capacity: 64000 CPUs are more than the 8192 that Linux supports"], {"cpu"}, set()),
    ("memory, and so hugepages",
        raw(zone("node-0", resource("memory", 1, 2, 1)), zone("node-1", resource("hugepages-2Mi", 1, 1, 1)),
            zone("node-2", GPU)),
        [f"{AT}.allocatable: 2 is more than the capacity of 1"], {"memory", "hugepages-2Mi"}, {"x.io/gpu"}),
]))  # fmt: skip
def test_an_odd_amount_is_uncertain(
    written: Json, odd: list[str], uncertain: set[str], listed: set[str]
) -> None:
    read = topology(written)
    assert [*map(str, read.odd)] == odd
    assert read.uncertain == uncertain
    assert {name for each in read.zones for name in each.capacity} == listed
    assert all(each.free["cpu"] == each.allocatable["cpu"] for each in read.zones if "cpu" in listed)


def managed_by(program: str) -> Json:
    return {"metadata": {"name": "n", "labels": {"app.kubernetes.io/managed-by": program}}}


LISTS = zone("node-0", GPU, resource(CORE, 9, 9, 9), resource("cpu", 4, 4, 4))
ALL = {CORE, "x.io/gpu", "cpu"}


@pytest.mark.parametrize(("fields", "uncertain"), table([
    # what it shows                          fields                        uncertain
    ("no label means a device plugin",  {},                           {CORE}),
    ("another program may not",              managed_by("Koordinator"),    ALL),
    ("another empty name",                managed_by(""),               ALL),
    ("unless an exporter writes there too",
     {**managed_by("Koordinator"), **attribute_values(topologyManagerPolicy="none")},  {CORE}),
]))  # fmt: skip
def test_devices_of_another_program_are_uncertain(fields: Json, uncertain: set[str]) -> None:
    read = topology(kinds.TOPOLOGIES[0].described({**raw(LISTS), **fields}))
    assert read.uncertain == uncertain
    assert {*read.zones[0].capacity} == ALL - uncertain


def test_koordinator_annotates_the_cpu_manager() -> None:
    policy = {"policy": "static", "options": {"full-pcpus-only": "true"}}
    written = managed_by("Koordinator")
    written["metadata"]["annotations"] = {CPU_POLICY: json.dumps(policy)}
    listed = resource("cpu", 4, 3, 3), resource("memory", 9, 9, 9)
    read = topology(kinds.TOPOLOGIES[0].described({**raw(zone("node-0", *listed)), **written}))
    # Nobody tells whether there is a memory manager, or which zones have the reserved CPUs.
    assert (read.uncertain, read.zones[0].free) == (frozenset({"cpu", "memory"}), Resources({"cpu": 4000}))
    joined = join(read)
    assert (joined.cpu_manager, joined.memory_manager) == (CpuManager.STATIC, MemoryManager.NONE)
    assert joined.options.cpu == {CpuOption.FULL_PCPUS_ONLY}


def test_as_many_zones_as_are_allowed_are_read() -> None:
    assert len(topology(raw(*all_to_all(64))).zones) == 64


ZONES = [
    zone(f"node-{at}", resource("cpu", 8 + at, 8, at), resource("memory", "8Gi", "7Gi", "6Gi"),
        resource("nvidia.com/gpu", at, at, 0),
        costs=[cost(f"node-{other}", 10 + abs(at - other)) for other in (0, 1, 3)])
    for at in (0, 1, 3)
]  # fmt: skip


@given(st.data())
def test_the_order_of_lists_changes_nothing(data: st.DataObject) -> None:
    def shuffled(each: Json) -> Json:
        return each | {key: data.draw(st.permutations(each[key])) for key in ("resources", "costs")}

    zones = data.draw(st.permutations(ZONES))
    assert topology(raw(*map(shuffled, zones))) == topology(raw(*ZONES))


WHOLE_CORES = frozenset({CpuOption.FULL_PCPUS_ONLY})
STATIC = CpuFacts(CpuManager.STATIC)


@pytest.mark.parametrize(("written", "expected"), table([
    # what it shows              what is written                                                 what is read
    ("a policy",                 {"policy": "static"},                                           STATIC),
    ("an option",                {"policy": "static", "options": {"full-pcpus-only": "true"}},
     CpuFacts(CpuManager.STATIC, WHOLE_CORES)),
    ("one that is off",          {"policy": "static", "options": {"full-pcpus-only": "false"}},  STATIC),
    ("nothing is queried",       {},                                                             NO_FACTS),
    ("an unknown option",        {"policy": "static", "options": {"x": "true"}},                 NO_FACTS),
]))  # fmt: skip
def test_the_policy_of_the_cpu_manager(written: object, expected: CpuFacts) -> None:
    assert cpu_facts({CPU_POLICY: json.dumps(written)}, 4) == expected


def places(*cores: int) -> list[dict[str, int]]:
    return [{"id": at, "core": core, "socket": 0, "node": 0} for at, core in enumerate(cores)]


@pytest.mark.parametrize(("detail", "expected"), table([
    # what it shows            the CPUs                            threads per core
    ("two",                    places(0, 1, 0, 1),                 2),
    ("one",                    places(0, 1, 2, 3),                 1),
    ("cores that differ",      places(0, 0, 0, 1),                 None),
    ("a place that is none",   [*places(0, 1, 0), {"core": "x"}],  None),
    ("no list",                {"0": {}},                          None),
]))  # fmt: skip
def test_the_threads_of_a_core(detail: object, expected: int | None) -> None:
    assert cpu_facts({CPU_TOPOLOGY: json.dumps({"detail": detail})}, 4).threads == expected


@given(
    st.sampled_from([CPU_POLICY, CPU_TOPOLOGY]), st.text() | st.none() | st.integers() | st.just("[" * 9999)
)
def test_invalid_json_has_no_facts(key: str, text: object) -> None:
    assert cpu_facts({key: text}, 4) == NO_FACTS
