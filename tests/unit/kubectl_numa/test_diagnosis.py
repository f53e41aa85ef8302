"""Every finding has a node that shows it; nodes with the same finding are one group."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa import diagnosis
from kubectl_numa.diagnosis import LEAST_SKEW_SECONDS, Finding, FoundOnNode, Severity, Skew, Traces, diagnose
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.stores import Problem
from numalign.model.errors import Mistake
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Known, Node
from numalign.model.options import Options
from tests.worlds.notation import machine, node, options

NOW = 1_790_000_000.0
ALIGNS = "single-numa-node"
CURRENT = Options(minor=34)


def complete(made: Node) -> Node:
    """Node a, of which everything is known."""
    return replace(made, name="a", known=Known.MACHINE)


GOOD = complete(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=ALIGNS, options=CURRENT))
COUNTED = replace(GOOD, known=Known.COUNTS)
NINE = complete(node(*["cpu=8 mem=8Gi"] * 9, policy=ALIGNS, options=CURRENT, max_zones=16))
EIGHTEEN = replace(NINE, zones=node(*["cpu=8 mem=8Gi"] * 18).zones, max_zones=18)
MISPLACED = complete(
    machine("cpu=0-7 mem=8Gi", reserved="0", devices="gpu=?", policy=ALIGNS, options=CURRENT)
)
SPLIT = complete(
    machine(
        *(f"cpu={4 * zone}-{4 * zone + 3} mem=8Gi" for zone in range(4)),
        threads=2,
        reserved="8,12",
        policy="restricted",
        options=options("full-pcpus-only distribute-cpus-across-numa", minor=37),
    )
)
AGENT = {"a": NOW - 5}
NRT, CONFIGURATION = "NodeResourceTopology", "KubeletConfiguration"
REPORT = "metadata.annotations[numalign.io/machine]"
UNRELEASED = "no kubelet up to the pre-release 1.38 has it"


def cluster(*nodes: Node, agents: dict[str, float] | None = None, **more: Any) -> Snapshot:  # noqa: ANN401  any value
    """A cluster of these nodes, whose agents published at these times."""
    return Snapshot(nodes, observed_at=AGENT if agents is None else agents, **more)


def wrong(kind: str, where: str, what: str = "is wrong") -> dict[str, Any]:
    """A mistake in an object of node a."""
    return {"problems": (Problem(kind, "a", (Mistake(where, what),)),)}


def clock(seconds: int, *, measured: bool = True) -> Traces:
    """Traces of a clock of node a that is so many seconds ahead."""
    return Traces(skews={"a": Skew(seconds, measured)})


def having(**changes: Any) -> Snapshot:  # noqa: ANN401  any value
    """A cluster of node a, with these changes of what is known of it."""
    return cluster(replace(GOOD, **changes))


def with_options(text: str = "", **more: Any) -> Snapshot:  # noqa: ANN401  any value
    return having(options=options(text, **more))


UNKNOWN: dict[str, Any] = {"unknown": ("a",), "agents": {}}
GATE = "TopologyManagerPolicyAlphaOptions"
FINGERPRINTED: dict[str, Any] = {"agents": {}, "fingerprints": {"a": Fingerprint("pfp")}}
FOUND: list[tuple[str, Snapshot]] = [
    ("", cluster(GOOD)),
    ("no-topology", cluster(**UNKNOWN)),
    ("bad-topology NodeResourceTopology: zones: is wrong", cluster(**UNKNOWN, **wrong(NRT, "zones"))),
    ("bad-topology Numatopology: spec: is wrong", cluster(**UNKNOWN, **wrong("Numatopology", "spec"))),
    (f"odd-amounts {NRT}: zones[0].resources[0].available: is wrong",
        cluster(GOOD, **wrong(NRT, "zones[0].resources[0].available"))),
    ("doubtful-devices x.io/a, x.io/b", having(uncertain=frozenset({"x.io/b", "x.io/a"}))),
    ("bad-node Node: spec.taints: is wrong", cluster(GOOD, **wrong("Node", "spec.taints"))),
    ("stale for 2 h", cluster(GOOD, agents={"a": NOW - 7300})),
    (f"bad-report {NRT}: {REPORT}.version: is wrong", cluster(COUNTED, **wrong(NRT, f"{REPORT}.version"))),
    ("unknown-option a; unknown-option b", with_options(minor=34, unknown="b a")),
    ((f"unreleased-option prefer-most-allocated-numa-node: {UNRELEASED}, and needs the feature gate {GATE},"
        " which is off"), with_options("prefer-most-allocated-numa-node", minor=37)),
    ((f"unreleased-option numa-allocation-strategy: {UNRELEASED}; "
        f"unreleased-option numa-score-weights: {UNRELEASED}; pre-release 1.38"),
        with_options(GATE, minor=38, strategy="most-allocated", weights="cpu=3")),
    # A version that is not known here may have the option.
    ("version 1.39", with_options(minor=39, strategy="most-allocated")),
    ("bad-configuration KubeletConfiguration: cpuManagerPolicyOptions.a: is wrong",
        cluster(GOOD, **wrong(CONFIGURATION, "cpuManagerPolicyOptions.a"))),
    ("counts-only", cluster(COUNTED, **FINGERPRINTED)),
    ("no-machine", cluster(replace(GOOD, known=Known.CONFIGURED), **FINGERPRINTED)),
    ("silent-agent", cluster(COUNTED)),
    ("counts-only; no-fingerprint", cluster(COUNTED, agents={})),
    ("no-fingerprint NodeResourceTopology: attributes: is wrong", cluster(GOOD, **wrong(NRT, "attributes"))),
    ("no-version", having(options=Options())),
    ("version 1.35", having(options=Options(minor=35))),
    ("pre-release 1.38", having(options=Options(minor=38))),
    ("not-aligned", having(policy=Policy.NONE)),
    ("shared-cpus", having(cpu_manager=CpuManager.NONE)),
    ("many-zones 9 zones", cluster(NINE)),
    ("no-such-zone nvidia.com/gpu", cluster(MISPLACED)),
    ("stalled 18 zones; many-zones 18 zones", cluster(EIGHTEEN)),
    ("endless-search parts of cores are reserved in zones 2, 3", cluster(SPLIT)),
    # From 1.38 on, whole cores are counted.
    ("pre-release 1.38", cluster(replace(SPLIT, options=replace(SPLIT.options, minor=38)))),
    ("orphan NodeResourceTopology: metadata.name: no Node",
        cluster(agents={}, **wrong(NRT, "metadata.name", "no Node"))),
]  # fmt: skip
TRACES: list[tuple[str, Snapshot, Traces]] = [
    ("two-writers nfd, rte", cluster(GOOD), Traces(writers={"a": ["nfd", "rte"]})),
    ("", cluster(GOOD), Traces(writers={"a": ["nfd"]}, asking={"a": ["team/p"]})),
    ("no-topology; unjudged-pods team/p; unjudged-pods team/q", cluster(**UNKNOWN),
        Traces(asking={"a": ["team/p", "team/q"]})),
    ("wrong-clock its clock is 2 min behind", cluster(GOOD), clock(-120)),
    ("wrong-clock its clock is 1 h ahead", cluster(GOOD, agents={"a": NOW + 3600}), clock(3600)),
    ("wrong-clock its clock was at least 2 min behind when the last pod started", cluster(GOOD),
        clock(-120, measured=False)),
    ("", cluster(GOOD), clock(1 - LEAST_SKEW_SECONDS)),
    ("wrong-clock its clock is 2 h behind", cluster(GOOD, agents={"a": NOW - 7200}), clock(-7200)),
]  # fmt: skip
CASES = [*((expected, snapshot, Traces()) for expected, snapshot in FOUND), *TRACES]


@pytest.mark.parametrize(("expected", "snapshot", "traces"), CASES)
def test_findings_of_a_node(expected: str, snapshot: Snapshot, traces: Traces) -> None:
    [node] = diagnose(snapshot, traces, seen=NOW)
    found = [f"{each.finding.value} {each.detail}".strip() for each in node.found]

    assert (node.name, "; ".join(found)) == ("a", expected)


def test_the_table_has_every_finding() -> None:
    found = {finding.partition(" ")[0] for expected, *_ in CASES for finding in expected.split("; ")}
    assert found == {"", *Finding}


def test_remedies_depend_on_other_agents_and_versions() -> None:
    """An agent may lack a right before Kubernetes 1.33."""
    for agents, remedy in (({}, "--set agent.enabled=true"), ({"b": NOW}, "Other nodes have an agent.")):
        snapshot = cluster(COUNTED, replace(GOOD, name="b"), unknown=("c",), agents=agents)
        nodes = diagnose(snapshot, Traces(), seen=NOW)
        remedies = {each.finding: each.remedy for node in nodes for each in node.found if node.name != "b"}
        assert remedy in remedies[Finding.COUNTS_ONLY]
        assert remedy in remedies[Finding.NO_TOPOLOGY]
    log = "Read in its log"
    for minor, remedy in ((32, "--set agent.nodeProxy=true"), (34, log), (None, log)):
        [node] = diagnose(cluster(replace(COUNTED, options=Options(minor=minor))), Traces(), seen=NOW)
        assert remedy in node.found[0].remedy


def test_notes_are_no_lack_and_come_last() -> None:
    nodes = (GOOD, *(replace(COUNTED, name=name, options=Options(minor=35)) for name in "bcd"))
    noted = replace(GOOD, name="f", options=Options(minor=35))
    snapshot = cluster(*nodes, noted, unknown=("e",), agents={**AGENT, "f": NOW})
    diagnosed = diagnose(snapshot, Traces(), seen=NOW)

    groups = [
        (each.finding.value, each.severity, "".join(each.names)) for each in diagnosis.groups(diagnosed)
    ]

    assert [node.lacking for node in diagnosed if node.name in "aef"] == [False, True, False]
    assert groups == [
        ("counts-only", Severity.LACK, "bcd"),
        ("no-fingerprint", Severity.LACK, "bcd"),
        ("no-topology", Severity.LACK, "e"),
        ("version", Severity.NOTE, "bcdf"),
    ]


def test_a_group_lists_nodes_by_detail() -> None:
    ages = {"a": NOW - 7300, "b": NOW - 7400, "c": NOW - 90_000}
    nodes = (replace(GOOD, name=name) for name in ages)
    [group] = diagnosis.groups(diagnose(cluster(*nodes, agents=ages), Traces(), seen=NOW))

    assert group.names_by_detail == {"for 2 h": ["a", "b"], "for 1 day": ["c"]}
    assert group.what == "The agent stopped publishing, so its report may be outdated"


def test_orphans_are_deleted_by_one_command() -> None:
    for kind in (NRT, "Numatopology"):
        problems = tuple(Problem(kind, name, (Mistake("metadata.name", "no Node"),)) for name in "bc")
        nodes = diagnose(cluster(GOOD, problems=problems), Traces(), seen=NOW)
        [group] = diagnosis.groups(nodes)
        [finding] = nodes[1].to_json()["findings"]

        assert group.fix == f"Delete it:\n  kubectl delete {kind.lower()} b c"
        assert finding["remedy"] == f"Delete it:\n  kubectl delete {kind.lower()} b"
        assert finding.keys() == {"finding", "severity", "detail", "what", "remedy"}


PROBLEMS = st.builds(
    lambda kind, name, where, what: Problem(kind, name, (Mistake(where, what),)),
    st.sampled_from((NRT, CONFIGURATION, "Numatopology", "Node", "Namespace")),
    st.sampled_from("abx"),
    st.sampled_from(("zones", "metadata.name", REPORT)),
    st.sampled_from(("is wrong", "is missing")),
)


@given(st.lists(PROBLEMS, max_size=6), st.sampled_from([{}, AGENT, {"a": 0.0}]))
def test_each_finding_is_in_one_group(problems: list[Problem], agents: dict[str, float]) -> None:
    """And mistakes in objects of nodes are findings, others are not."""
    snapshot = cluster(GOOD, unknown=("b",), agents=agents, problems=tuple(problems))
    nodes = diagnose(snapshot, Traces(), seen=NOW)

    assert {(node.name, each) for node in nodes for each in node.found} == {
        (name, FoundOnNode(group.finding, detail, group.remedy))
        for group in diagnosis.groups(nodes)
        for detail, names in group.names_by_detail.items()
        for name in names
    }
    details = {(node.name, each.detail) for node in nodes for each in node.found}
    mistakes = {
        problem: {(problem.name, f"{problem.kind}: {mistake}") for mistake in problem.mistakes}
        for problem in problems
    }
    every = set[tuple[str, str]]().union(*mistakes.values())
    assert details & every == set().union(
        *(each for problem, each in mistakes.items() if problem.kind != "Namespace")
    )
