"""Every finding has a node that shows it; doctor groups nodes by finding, as text and as an exit code."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa import diagnosis
from kubectl_numa.diagnosis import LEAST_SKEW_SECONDS, Finding, FoundOnNode, Severity, Skew, Traces, diagnose
from numalign.kube.cluster import Cluster
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.kinds import READY_KEY
from numalign.kube.stores import Problem
from numalign.model.errors import Mistake
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, Known, Node
from numalign.model.options import Options
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import running
from tests.worlds import objects
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import machine, node, options, table
from tests.worlds.objects import Json, described_machine, machine_zone, nrt, reported

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


def cluster(*nodes: Node, agents: dict[str, float] | None = None, **more: Any) -> Cluster:  # noqa: ANN401  any value
    """A cluster of these nodes, whose agents published at these times."""
    return a_cluster(nodes, observed_at=AGENT if agents is None else agents, **more)


def wrong(kind: str, where: str, what: str = "is wrong") -> dict[str, Any]:
    """A mistake in an object of node a."""
    return {"problems": (Problem(kind, "a", (Mistake(where, what),)),)}


def clock(seconds: int, *, measured: bool = True) -> Traces:
    """Traces of a clock of node a that is so many seconds ahead."""
    return Traces(skews={"a": Skew(seconds, measured)})


def having(**changes: Any) -> Cluster:  # noqa: ANN401  any value
    """A cluster of node a, with these changes of what is known of it."""
    return cluster(replace(GOOD, **changes))


def with_options(text: str = "", **more: Any) -> Cluster:  # noqa: ANN401  any value
    return having(options=options(text, **more))


UNKNOWN: dict[str, Any] = {"unknown": ("a",), "agents": {}}
GATE = "TopologyManagerPolicyAlphaOptions"
FINGERPRINTED: dict[str, Any] = {"agents": {}, "parts": {"a": {"fingerprint": Fingerprint("pfp")}}}
FOUND: list[tuple[str, Cluster]] = [
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
TRACES: list[tuple[str, Cluster, Traces]] = [
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
CASES = [*((expected, known, Traces()) for expected, known in FOUND), *TRACES]


@pytest.mark.parametrize(("expected", "known", "traces"), CASES)
def test_findings_of_a_node(expected: str, known: Cluster, traces: Traces) -> None:
    [node] = diagnose(known, traces, seen=NOW)
    found = [f"{each.finding.value} {each.detail}".strip() for each in node.found]

    assert (node.name, "; ".join(found)) == ("a", expected)


def test_the_table_has_every_finding() -> None:
    found = {finding.partition(" ")[0] for expected, *_ in CASES for finding in expected.split("; ")}
    assert found == {"", *Finding}


def test_remedies_depend_on_other_agents_and_versions() -> None:
    """An agent may lack a right before Kubernetes 1.33."""
    for agents, remedy in (({}, "--set agent.enabled=true"), ({"b": NOW}, "Other nodes have an agent.")):
        known = cluster(COUNTED, replace(GOOD, name="b"), unknown=("c",), agents=agents)
        nodes = diagnose(known, Traces(), seen=NOW)
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
    known = cluster(*nodes, noted, unknown=("e",), agents={**AGENT, "f": NOW})
    diagnosed = diagnose(known, Traces(), seen=NOW)

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
    known = cluster(GOOD, unknown=("b",), agents=agents, problems=tuple(problems))
    nodes = diagnose(known, Traces(), seen=NOW)

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


ENABLE = (
    "  fix   Push the agent's image (docs/how-to/agent.md), and run the agent on\n        every node:\n"
    "          helm upgrade numalign deploy/chart -n numalign-system --reset-then-reuse-values"
    " --set agent.enabled=true --set agent.image.repository=REGISTRY/numalign-agent\n"
)


def unpublished(*names: str) -> list[Json]:
    """Nodes whose topology is not published."""
    status = {"allocatable": {"cpu": "8"}, "nodeInfo": {"kubeletVersion": "v1.34.4"}}
    return [{**objects.node(name), "status": {**status}} for name in names]


def test_text_groups_nodes_by_finding_with_remedies(cli: Cli) -> None:
    result = cli("doctor", "--snapshot", cli.cluster())
    paragraphs = result.stdout.split("\n\n")

    assert (result.exit_code, result.stderr) == (1, "")
    assert [each.partition("\n")[0] for each in paragraphs] == [
        "3 of 3 nodes lack something for exact predictions",
        "  lack  counts-only: 2 nodes (big, small)",
        "  lack  no-fingerprint: 2 nodes (big, small)",
        "  lack  no-version: 2 nodes (big, small)",
        "  lack  no-topology: 1 node (hidden)",
    ]
    assert paragraphs[-1] == (
        "  lack  no-topology: 1 node (hidden)\n"
        "        No NUMA topology is published: pods are neither steered to nor kept away\n"
        f"        from the node, and predictions are guesses.\n{ENABLE}"
    )


TIME, BEFORE = "2026-11-22T21:00:00Z", "2026-11-22T18:30:00Z"
MACHINE = described_machine(machine_zone(reservedMemory=None))


def agent_node(name: str, *, at: str = TIME, heartbeat: str | None = None) -> list[Json]:
    """A node and what its agent published; the API server got its last heartbeat at `NOW`."""
    attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    topology = reported(nrt(name, cpu=4, attributes=attributes), MACHINE, **{"observed-at": at})
    [node] = unpublished(name)
    if heartbeat:
        fields: Json = {"f:status": {"f:conditions": {READY_KEY: {"f:lastHeartbeatTime": {}}}}}
        node["metadata"] |= {"managedFields": [{"manager": "kubelet", "time": TIME, "fieldsV1": fields}]}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
        node["status"] |= {"conditions": [ready]}
    return [topology, node]


BROKEN = nrt("a", zones=[{"name": f"node-{zone}", "type": "Node", "costs": 1} for zone in range(7)])
ON_A = running("p", policy="restricted", node="a")
SHOWN: list[tuple[str, list[Json], list[str], str]] = [
    # the objects of node a, its findings, and a line of the text
    ("nothing is missing", agent_node("a"), [], "2 nodes: nothing is missing for exact predictions\n"),
    ("a clock that is behind", agent_node("a", heartbeat="2026-11-22T20:58:00Z"), ["wrong-clock"],
        "        * a: its clock is 2 min behind\n"),
    ("a topology with mistakes", [BROKEN, *unpublished("a")], ["bad-topology"], (
        "        * a: NodeResourceTopology: zones[4].costs: must be a list, not a number\n"
        "        * and 2 more (--all shows them)\n")),
    ("pods that request alignment", [ON_A, *unpublished("a")], ["no-topology", "unjudged-pods"],
        "        * a: team/p\n"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "findings", "line"), table(SHOWN))
def test_doctor_shows_findings_of_a_node(cli: Cli, made: list[Json], findings: list[str], line: str) -> None:
    path = cli.cluster(items=[*made, *agent_node("b", heartbeat=TIME)])
    text = cli("doctor", "--snapshot", path)
    of_a, of_b = [node["findings"] for node in cli.json("doctor", "--snapshot", path)]
    lacking = any(finding["severity"] == "lack" for finding in of_a)

    assert ([*dict.fromkeys(each["finding"] for each in of_a)], of_b) == (findings, [])
    assert (text.exit_code, text.stderr, line in text.stdout) == (lacking, "", True)


def test_names_are_counted_unless_all_is_given(cli: Cli) -> None:
    path = cli.cluster(items=unpublished(*(f"n{number}" for number in range(9))))
    for flags, names in (((), "n4 and 4 more"), (("--all",), "n4, n5, n6, n7, n8")):
        text = cli("doctor", *flags, "--snapshot", path).stdout
        assert f"  lack  no-topology: 9 nodes (n0, n1, n2, n3, {names})\n" in text


def test_agents_of_a_cluster_are_stale_and_of_a_file_not(cli: Cli, fake: FakeCluster) -> None:
    items = [*agent_node("a", at="2020-01-01T00:00:00Z"), running("p")]
    fake.put(*items)
    live = cli("doctor", "--kubeconfig", fake.kubeconfig)

    assert (live.exit_code, "  lack  stale: 1 node (a)\n" in live.stdout) == (1, True)
    assert cli("doctor", "--snapshot", cli.cluster(items=items)).exit_code == 0


def test_pods_of_a_cluster_are_read_on_request(cli: Cli, served: FakeCluster) -> None:
    served.put(running("p", policy="restricted", node="hidden"))
    results = [cli("doctor", *flags, "--kubeconfig", served.kubeconfig) for flags in ([], ["--with-pods"])]

    assert [(each.exit_code, "unjudged-pods" in each.stdout) for each in results] == [(1, False), (1, True)]
