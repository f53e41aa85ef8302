"""Every finding has a node that shows it, and nodes that do not; what is the same stands together."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa import diagnosis
from kubectl_numa.diagnosis import (
    LEAST_SKEW_SECONDS,
    DiagnosedNode,
    Finding,
    Severity,
    Skew,
    Traces,
    diagnose,
)
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.stores import Problem
from numalign.model.errors import Mistake
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Known, Node
from numalign.model.options import Options
from tests.worlds.notation import machine, node, options, table

NOW = 1_790_000_000.0
ALIGNS = "single-numa-node"
TOLD = Options(minor=34)
GOOD = replace(
    node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=ALIGNS, options=TOLD), name="a", known=Known.MACHINE
)
"""A node of which all is known."""
COUNTED = replace(GOOD, known=Known.COUNTS)
SINGLE_ZONES = node(*["cpu=8 mem=8Gi"] * 9, policy=ALIGNS, options=TOLD, max_zones=16)
NINE = replace(SINGLE_ZONES, name="a", known=Known.MACHINE)
EIGHTEEN = replace(NINE, zones=node(*["cpu=8 mem=8Gi"] * 18).zones, max_zones=18)
MISPLACED = replace(
    machine("cpu=0-7 mem=8Gi", reserved="0", devices="gpu=?", policy=ALIGNS, options=TOLD),
    name="a",
    known=Known.MACHINE,
)
SPLIT = replace(
    machine(
        *(f"cpu={4 * zone}-{4 * zone + 3} mem=8Gi" for zone in range(4)),
        threads=2,
        reserved="8,12",
        policy="restricted",
        options=options("full-pcpus-only distribute-cpus-across-numa", minor=37),
    ),
    name="a",
    known=Known.MACHINE,
)
AGENT = {"a": NOW - 5}
NRT, CONFIGURATION = "NodeResourceTopology", "KubeletConfiguration"
REPORT = "metadata.annotations[numalign.io/machine]"


def seen(*nodes: Node, agents: dict[str, float] | None = None, **more: Any) -> Snapshot:  # noqa: ANN401  fields
    """A cluster of these nodes, with agents that looked at these times."""
    return Snapshot(nodes, observed_at=AGENT if agents is None else agents, **more)


def wrong(kind: str, where: str, what: str = "is wrong") -> dict[str, Any]:
    """A mistake in an object of node a."""
    return {"problems": (Problem(kind, "a", (Mistake(where, what),)),)}


def clock(seconds: int, *, measured: bool = True) -> Traces:
    """What shows how far ahead the clock of node a is."""
    return Traces(skews={"a": Skew(seconds, measured)})


def found(snapshot: Snapshot, traces: Traces | None = None) -> dict[str, list[tuple[str, str]]]:
    """What was found on every node, with details."""
    nodes = diagnose(snapshot, traces or Traces(), seen=NOW)
    return {node.name: [(each.finding.value, each.detail) for each in node.found] for node in nodes}


def test_nothing_is_missing_where_an_agent_told_the_machine_a_moment_ago() -> None:
    assert found(seen(GOOD)) == {"a": []}


FOUND: list[tuple[str, Snapshot, list[tuple[str, str]]]] = [
    ("no topology", seen(unknown=("a",), agents={}), [("no-topology", "")]),
    ("a topology that is invalid", seen(unknown=("a",), agents={}, **wrong(NRT, "zones")),
        [("bad-topology", "NodeResourceTopology: zones: is wrong")]),
    ("a topology with an odd amount", seen(GOOD, **wrong(NRT, "zones[0].resources[0].available")),
        [("odd-amounts", f"{NRT}: zones[0].resources[0].available: is wrong")]),
    ("devices of no known plugin", seen(replace(GOOD, uncertain=frozenset({"x.io/b", "x.io/a"}))),
        [("doubtful-devices", "x.io/a, x.io/b")]),
    ("a Node that is invalid", seen(GOOD, **wrong("Node", "spec.taints")),
        [("bad-node", "Node: spec.taints: is wrong")]),
    ("an agent that is silent for long", seen(GOOD, agents={"a": NOW - 7300}), [("stale", "for 2 h")]),
    ("an agent that cannot be read", seen(COUNTED, **wrong(NRT, f"{REPORT}.version")),
        [("bad-report", f"{NRT}: {REPORT}.version: is wrong")]),
    ("options that are not known", seen(replace(GOOD, options=options(minor=34, unknown="b a"))),
        [("unknown-option", "a"), ("unknown-option", "b")]),
    ("an option that no version has, without its gate",
        seen(replace(GOOD, options=options("prefer-most-allocated-numa-node", minor=37))),
        [("unreleased-option", ("prefer-most-allocated-numa-node: no kubelet up to the pre-release 1.38"
            " has it, and needs the feature gate TopologyManagerPolicyAlphaOptions, which is off"))]),
    ("options that no version has",
        seen(replace(GOOD, options=options(
            "TopologyManagerPolicyAlphaOptions", minor=38, strategy="most-allocated", weights="cpu=3"))),
        [("unreleased-option", "numa-allocation-strategy: no kubelet up to the pre-release 1.38 has it"),
            ("unreleased-option", "numa-score-weights: no kubelet up to the pre-release 1.38 has it"),
            ("pre-release", "1.38")]),
    ("an option that a version may have that is not known here",
        seen(replace(GOOD, options=options(minor=39, strategy="most-allocated"))), [("version", "1.39")]),
    ("options that are at odds", seen(GOOD, **wrong(CONFIGURATION, "cpuManagerPolicyOptions.a")),
        [("bad-configuration", "KubeletConfiguration: cpuManagerPolicyOptions.a: is wrong")]),
    ("a configuration that is invalid", seen(GOOD, **wrong(CONFIGURATION, "reservedMemory")),
        [("bad-configuration", "KubeletConfiguration: reservedMemory: is wrong")]),
    ("an exporter that counts", seen(COUNTED, agents={}, fingerprints={"a": Fingerprint("pfp")}),
        [("counts-only", "")]),
    ("an exporter, and a configuration",
        seen(replace(GOOD, known=Known.CONFIGURED), agents={}, fingerprints={"a": Fingerprint("pfp")}),
        [("no-machine", "")]),
    ("an agent that does not tell the machine", seen(COUNTED), [("silent-agent", "")]),
    ("an exporter without fingerprints", seen(COUNTED, agents={}),
        [("counts-only", ""), ("no-fingerprint", "")]),
    ("no version", seen(replace(GOOD, options=Options())), [("no-version", "")]),
    ("a version that was not compared", seen(replace(GOOD, options=Options(minor=35))),
        [("version", "1.35")]),
    ("a version that is not released yet", seen(replace(GOOD, options=Options(minor=38))),
        [("pre-release", "1.38")]),
    ("a kubelet that aligns nothing", seen(replace(GOOD, policy=Policy.NONE)), [("not-aligned", "")]),
    ("a kubelet that gives out no CPUs", seen(replace(GOOD, cpu_manager=CpuManager.NONE)),
        [("shared-cpus", "")]),
    ("more zones than kubelets take", seen(NINE), [("many-zones", "9 zones")]),
    ("devices of a zone that does not exist", seen(MISPLACED), [("no-such-zone", "nvidia.com/gpu")]),
    ("zones whose sets a kubelet cannot visit", seen(EIGHTEEN),
        [("stalled", "18 zones"), ("many-zones", "18 zones")]),
    ("a kubelet that may search without end", seen(SPLIT),
        [("endless-search", "parts of cores are reserved in zones 2, 3")]),
    ("a kubelet that counts whole cores",
        seen(replace(SPLIT, options=replace(SPLIT.options, minor=38))), [("pre-release", "1.38")]),
    ("a fingerprint that cannot be compared", seen(GOOD, **wrong(NRT, "attributes")),
        [("no-fingerprint", "NodeResourceTopology: attributes: is wrong")]),
    ("an object that was left behind", seen(agents={}, **wrong(NRT, "metadata.name", "no Node")),
        [("orphan", "NodeResourceTopology: metadata.name: no Node")]),
    ("an object of Volcano that is invalid",
        seen(unknown=("a",), agents={}, **wrong("Numatopology", "spec")),
        [("bad-topology", "Numatopology: spec: is wrong")]),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "findings"), table(FOUND))
def test_it_is_found_of_a_node_with(snapshot: Snapshot, findings: list[tuple[str, str]]) -> None:
    assert found(snapshot) == {"a": findings}


@pytest.mark.parametrize(
    ("snapshot", "traces", "findings"),
    table(
        [
            ("two writers", seen(GOOD), Traces(writers={"a": ["nfd", "rte"]}), [("two-writers", "nfd, rte")]),
            ("one writer", seen(GOOD), Traces(writers={"a": ["nfd"]}), []),
            ("pods that ask", seen(GOOD), Traces(asking={"a": ["team/p"]}), []),
            (
                "pods that ask, and no topology",
                seen(unknown=("a",), agents={}),
                Traces(asking={"a": ["team/p", "team/q"]}),
                [("no-topology", ""), ("unjudged-pods", "team/p"), ("unjudged-pods", "team/q")],
            ),
            (
                "a clock that is behind",
                seen(GOOD),
                clock(-120),
                [("wrong-clock", "its clock is 2 min behind")],
            ),
            (
                "a clock that is ahead",
                seen(GOOD, agents={"a": NOW + 3600}),
                clock(3600),
                [("wrong-clock", "its clock is 1 h ahead")],
            ),
            (
                "a clock that was behind",
                seen(GOOD),
                clock(-120, measured=False),
                [("wrong-clock", "its clock was at least 2 min behind when the last pod started")],
            ),
            ("a clock that is nearly right", seen(GOOD), clock(1 - LEAST_SKEW_SECONDS), []),
            (
                "an agent that looks at a clock far behind",
                seen(GOOD, agents={"a": NOW - 7200}),
                clock(-7200),
                [("wrong-clock", "its clock is 2 h behind")],
            ),
        ]
    ),
)
def test_what_objects_tell_beside_is_found(
    snapshot: Snapshot, traces: Traces, findings: list[tuple[str, str]]
) -> None:
    assert found(snapshot, traces) == {"a": findings}


def test_every_finding_is_shown_by_a_test() -> None:
    shown = {finding for _, _, findings in FOUND for finding, _ in findings}
    assert shown | {Finding.TWO_WRITERS, Finding.UNJUDGED_PODS, Finding.WRONG_CLOCK} == {*Finding}


@pytest.mark.parametrize(
    ("agents", "remedy"),
    [({}, "--set agent.enabled=true"), ({"b": NOW}, "Other nodes have an agent.")],
)
def test_an_agent_is_installed_where_there_is_none_and_looked_for_where_there_are_some(
    agents: dict[str, float], remedy: str
) -> None:
    nodes = diagnose(
        seen(COUNTED, replace(GOOD, name="b"), unknown=("c",), agents=agents), Traces(), seen=NOW
    )
    remedies = {each.finding: each.remedy for node in nodes for each in node.found if node.name != "b"}

    assert remedy in remedies[Finding.COUNTS_ONLY]
    assert remedy in remedies[Finding.NO_TOPOLOGY]


@pytest.mark.parametrize(
    ("minor", "remedy"),
    [(32, "--set agent.nodeProxy=true"), (34, "Read in its log"), (None, "Read in its log")],
)
def test_an_agent_that_says_nothing_of_the_machine_may_lack_a_right(minor: int | None, remedy: str) -> None:
    [examined] = diagnose(seen(replace(COUNTED, options=Options(minor=minor))), Traces(), seen=NOW)

    assert remedy in examined.found[0].remedy


def test_problems_of_other_objects_are_no_findings() -> None:
    problem = Problem("Namespace", "a", (Mistake("metadata.labels", "is wrong"),))

    assert found(seen(GOOD, problems=(problem,))) == {"a": []}
    assert not diagnosis.is_of_node(problem)


def test_a_note_is_no_lack() -> None:
    [noted, lacking] = diagnose(
        seen(replace(GOOD, options=Options(minor=35)), unknown=("b",)), Traces(), seen=NOW
    )

    assert (noted.lacking, lacking.lacking) == (False, True)


def test_what_is_missing_stands_before_notes_and_what_many_lack_before_what_few_do() -> None:
    nodes = (GOOD, *(replace(COUNTED, name=name, options=Options(minor=35)) for name in "bcd"))
    groups = diagnosis.groups(diagnose(seen(*nodes, unknown=("e",)), Traces(), seen=NOW))

    assert [(group.finding.value, group.severity, [*group.names]) for group in groups] == [
        ("counts-only", Severity.LACK, ["b", "c", "d"]),
        ("no-fingerprint", Severity.LACK, ["b", "c", "d"]),
        ("no-topology", Severity.LACK, ["e"]),
        ("version", Severity.NOTE, ["b", "c", "d"]),
    ]


def test_nodes_with_the_same_finding_stand_together_by_detail() -> None:
    ages = {"a": NOW - 7300, "b": NOW - 7400, "c": NOW - 90_000}
    nodes = (replace(GOOD, name=name) for name in ages)
    [group] = diagnosis.groups(diagnose(seen(*nodes, agents=ages), Traces(), seen=NOW))

    assert group.names_by_detail == {"for 2 h": ["a", "b"], "for 1 day": ["c"]}
    assert group.what == "The agent stopped publishing, so its report may be outdated"


@pytest.mark.parametrize(("kind", "type_"), [(NRT, "noderesourcetopology"), ("Numatopology", "numatopology")])
def test_what_was_left_behind_is_deleted_by_one_command(kind: str, type_: str) -> None:
    problems = tuple(Problem(kind, name, (Mistake("metadata.name", "no Node"),)) for name in "bc")
    nodes = diagnose(seen(GOOD, problems=problems), Traces(), seen=NOW)
    [group] = diagnosis.groups(nodes)

    assert group.fix == f"Delete it:\n  kubectl delete {type_} b c"
    assert nodes[1].to_json()["findings"][0]["remedy"] == f"Delete it:\n  kubectl delete {type_} b"


def test_a_node_for_programs() -> None:
    [entry] = [each.to_json() for each in diagnose(seen(unknown=("x",), agents={}), Traces(), seen=NOW)]

    assert [entry[key] for key in ("name", "known", "source", "age")] == ["x", "nothing", "none", None]
    [finding] = entry["findings"]
    assert finding.keys() == {"finding", "severity", "detail", "what", "remedy"}
    assert (finding["finding"], finding["severity"], finding["detail"]) == ("no-topology", "lack", None)


KINDS = st.sampled_from((NRT, CONFIGURATION, "Numatopology", "Node", "Namespace"))
WHERES = st.sampled_from(("zones", "metadata.name", REPORT))
PROBLEMS = st.builds(
    lambda kind, name, where, what: Problem(kind, name, (Mistake(where, what),)),
    KINDS,
    st.sampled_from("abx"),
    WHERES,
    st.sampled_from(("is wrong", "is missing")),
)


@given(st.lists(PROBLEMS, max_size=6), st.sampled_from([{}, AGENT, {"a": 0.0}]))
def test_every_finding_is_in_one_group_and_no_mistake_is_lost(
    problems: list[Problem], agents: dict[str, float]
) -> None:
    snapshot = seen(GOOD, unknown=("b",), agents=agents, problems=tuple(problems))
    nodes = diagnose(snapshot, Traces(), seen=NOW)

    assert {(node.name, each) for node in nodes for each in node.found} == grouped(nodes)
    told = {(node.name, each.detail) for node in nodes for each in node.found}
    mistakes = {(each.name, f"{each.kind}: {mistake}") for each in problems for mistake in each.mistakes}
    ours = {
        (each.name, f"{each.kind}: {mistake}")
        for each in filter(diagnosis.is_of_node, problems)
        for mistake in each.mistakes
    }
    assert told & mistakes == ours


def grouped(nodes: tuple[DiagnosedNode, ...]) -> set[tuple[str, diagnosis.FoundOnNode]]:
    return {
        (name, diagnosis.FoundOnNode(group.finding, detail, group.remedy))
        for group in diagnosis.groups(nodes)
        for detail, names in group.names_by_detail.items()
        for name in names
    }
