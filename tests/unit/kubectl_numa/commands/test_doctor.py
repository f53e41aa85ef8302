"""doctor: findings as text, as JSON and as an exit code."""

import pytest

from numalign.kube.kinds import READY_KEY
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import running
from tests.worlds import objects
from tests.worlds.notation import table
from tests.worlds.objects import Json, described_machine, machine_zone, nrt, reported

ENABLE = (
    "  fix   Push the agent's image (docs/how-to/agent.md), and run the agent on\n        every node:\n"
    "          helm upgrade numalign deploy/chart -n numalign-system --reset-then-reuse-values"
    " --set agent.enabled=true --set agent.image.repository=REGISTRY/numalign-agent\n"
)


def nodes(*names: str) -> list[Json]:
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


NOW, BEFORE = "2026-11-22T21:00:00Z", "2026-11-22T18:30:00Z"
MACHINE = described_machine(machine_zone(reservedMemory=None))


def agent_node(name: str, *, at: str = NOW, heartbeat: str | None = None) -> list[Json]:
    """A node and what its agent published; the API server got its last heartbeat at `NOW`."""
    attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    topology = reported(nrt(name, cpu=4, attributes=attributes), MACHINE, **{"observed-at": at})
    [node] = nodes(name)
    if heartbeat:
        fields: Json = {"f:status": {"f:conditions": {READY_KEY: {"f:lastHeartbeatTime": {}}}}}
        node["metadata"] |= {"managedFields": [{"manager": "kubelet", "time": NOW, "fieldsV1": fields}]}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
        node["status"] |= {"conditions": [ready]}
    return [topology, node]


BROKEN = nrt("a", zones=[{"name": f"node-{zone}", "type": "Node", "costs": 1} for zone in range(7)])
ON_A = running("p", policy="restricted", node="a")
FOUND: list[tuple[str, list[Json], list[str], str]] = [
    # the objects of node a, its findings, and a line of the text
    ("nothing is missing", agent_node("a"), [], "2 nodes: nothing is missing for exact predictions\n"),
    ("a clock that is behind", agent_node("a", heartbeat="2026-11-22T20:58:00Z"), ["wrong-clock"],
        "        * a: its clock is 2 min behind\n"),
    ("a topology with mistakes", [BROKEN, *nodes("a")], ["bad-topology"], (
        "        * a: NodeResourceTopology: zones[4].costs: must be a list, not a number\n"
        "        * and 2 more (--all shows them)\n")),
    ("pods that request alignment", [ON_A, *nodes("a")], ["no-topology", "unjudged-pods"],
        "        * a: team/p\n"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "findings", "line"), table(FOUND))
def test_findings_of_a_node(cli: Cli, made: list[Json], findings: list[str], line: str) -> None:
    path = cli.cluster(items=[*made, *agent_node("b", heartbeat=NOW)])
    text = cli("doctor", "--snapshot", path)
    of_a, of_b = [node["findings"] for node in cli.json("doctor", "--snapshot", path)]
    lacking = any(finding["severity"] == "lack" for finding in of_a)

    assert ([*dict.fromkeys(each["finding"] for each in of_a)], of_b) == (findings, [])
    assert (text.exit_code, text.stderr, line in text.stdout) == (lacking, "", True)


def test_names_are_counted_unless_all_is_given(cli: Cli) -> None:
    path = cli.cluster(items=nodes(*(f"n{number}" for number in range(9))))
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
