"""doctor: what is missing as text, as JSON and as an exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from numalign.kube.kinds import READY_KEY
from tests.unit.kubectl_numa.objects import known, manifest
from tests.worlds.notation import table
from tests.worlds.objects import STATIC_KUBELET, described_machine, listed, machine_zone, nrt, reported

Run = Callable[..., Result]
Write = Callable[..., Path]

ENABLE = (
    "  fix   Push the agent's image (docs/how-to/agent.md), and run the agent on\n        every node:\n"
    "          helm upgrade numalign deploy/chart -n numalign-system --reset-then-reuse-values"
    " --set agent.enabled=true --set agent.image.repository=REGISTRY/numalign-agent\n"
)


def nodes(*names: str, version: str = "v1.34.4") -> list[dict[str, Any]]:
    """Nodes whose topology nobody tells."""
    status = {"allocatable": {"cpu": "8"}, "nodeInfo": {"kubeletVersion": version}}
    return [known("Node", name, status=status) for name in names]


def test_every_finding_stands_with_its_nodes_and_the_way_out(run: Run, cluster_file: Path) -> None:
    result = run("doctor", "--snapshot", cluster_file)

    assert result.exit_code == 1
    assert result.stdout == (
        "3 of 3 nodes lack something for exact predictions\n\n"
        "  lack  counts-only: 2 nodes (big, small)\n"
        "        Only amounts per NUMA zone are known, not the kubelet's options, CPU\n"
        f"        cores or unhealthy devices.\n{ENABLE}\n"
        "  lack  no-fingerprint: 2 nodes (big, small)\n"
        "        It is unknown which pods the exporter's amounts include, so new pods are\n"
        "        counted late.\n"
        "  fix   Enable fingerprints in the exporter (--pods-fingerprint, by method all\n"
        "        or with-exclusive-resources), or run the agent.\n\n"
        "  lack  no-version: 2 nodes (big, small)\n"
        "        The kubelet's version is unknown; the newest version that numalign was\n"
        "        compared with is assumed.\n"
        "  fix   Write a snapshot that contains the Nodes:\n"
        "          kubectl numa snapshot -o cluster.json.gz\n\n"
        "  lack  no-topology: 1 node (hidden)\n"
        "        No NUMA topology is published: pods are neither steered to nor kept away\n"
        f"        from the node, and predictions are guesses.\n{ENABLE}"
    )
    assert result.stderr == ""


def test_programs_get_every_node_with_all_of_it(run: Run, cluster_file: Path) -> None:
    every = json.loads(run("doctor", "--snapshot", cluster_file, "-o", "json").stdout)

    assert {node["name"]: [each["finding"] for each in node["findings"]] for node in every} == {
        "big": ["counts-only", "no-fingerprint", "no-version"],
        "hidden": ["no-topology"],
        "small": ["counts-only", "no-fingerprint", "no-version"],
    }


def test_only_the_nodes_that_are_named(run: Run, cluster_file: Path) -> None:
    stdout = run("doctor", "hidden", "--snapshot", cluster_file).stdout

    assert stdout.startswith("1 of 1 node lacks something for exact predictions\n")
    assert "big" not in stdout


NOW, BEFORE = "2026-11-22T21:00:00Z", "2026-11-22T18:30:00Z"
MACHINE = described_machine(machine_zone(reservedMemory=None))
OPTION = {**STATIC_KUBELET, "cpuManagerPolicyOptions": {"share-nothing": "true"}}


def told(name: str, described: object = MACHINE, *, at: object = NOW, **beside: Any) -> list[dict[str, Any]]:  # noqa: ANN401  as of `reported`
    """A node and what its agent wrote."""
    attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
    return [
        reported(nrt(name, cpu=4, attributes=attributes), described, **{"observed-at": at}, **beside),
        *nodes(name),
    ]


TOLD: list[tuple[str, list[dict[str, Any]], int, list[str]]] = [
    ("the machine a moment ago", told("a"), 0, []),
    ("the machine, of a kubelet that was not compared",
        [*told("a", kubelet={**STATIC_KUBELET, "version": "v1.35.1"})[:1], *nodes("a", version="v1.35.1")],
        0, ["version"]),
    ("the machine long before others", told("a", at=BEFORE), 1, ["stale"]),
    ("amounts alone", told("a", None), 1, ["silent-agent"]),
    ("an option that is not known", told("a", kubelet=OPTION), 1, ["unknown-option"]),
    ("in another version", told("a", None, machine='{"version": 2}'), 1, ["bad-report"]),
    ("no JSON", told("a", None, machine="{"), 1, ["bad-report"]),
    ("a machine of another size", told("a", described_machine(machine_zone(7))), 1, ["bad-report"]),
    ("placements of nonsense", told("a", placements="[]"), 1, ["bad-report"]),
    ("a time of nonsense", told("a", at="yesterday"), 1, ["bad-report", "no-fingerprint"]),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "code", "findings"), table(TOLD))
def test_of_a_node_whose_agent_told(
    run: Run, write: Write, objects: list[dict[str, Any]], code: int, findings: list[str]
) -> None:
    path = write("cluster.yaml", *objects, *told("b"))
    result = run("doctor", "--snapshot", path, "-o", "json")

    assert result.exit_code == code
    by_name = {node["name"]: node["findings"] for node in json.loads(result.stdout)}
    found = {name: [*dict.fromkeys(each["finding"] for each in told)] for name, told in by_name.items()}
    assert found == {"a": findings, "b": []}


def beating(made: list[dict[str, Any]], *, heartbeat: str, written: str) -> list[dict[str, Any]]:
    """The same with the node's last heartbeat, and the time at which the API server got it."""
    *others, node = made
    fields: dict[str, Any] = {"f:status": {"f:conditions": {READY_KEY: {"f:lastHeartbeatTime": {}}}}}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    beat = {"manager": "kubelet", "time": written, "fieldsV1": fields}
    metadata = {**node["metadata"], "managedFields": [beat]}
    return [*others, {**node, "metadata": metadata, "status": {**node["status"], "conditions": [ready]}}]


def test_a_clock_that_is_behind_is_said_in_every_form(run: Run, write: Write) -> None:
    behind = beating(told("a"), heartbeat="2026-11-22T20:58:00Z", written=NOW)
    right = beating(told("b"), heartbeat=NOW, written=NOW)
    path = write("cluster.yaml", *behind, *right)
    text, wide, listed = (
        run("doctor", "--snapshot", path, *more) for more in ([], ["-o", "wide"], ["-o", "json"])
    )

    assert [each.exit_code for each in (text, wide, listed)] == [1, 1, 1]
    assert text.stdout.startswith("1 of 2 nodes lacks something for exact predictions\n")
    assert "        * a: its clock is 2 min behind\n" in text.stdout
    assert wide.stdout.splitlines()[1].split()[:2] == ["a", "wrong-clock"]
    [[found], []] = [node["findings"] for node in json.loads(listed.stdout)]
    assert (found["severity"], found["detail"]) == ("lack", "its clock is 2 min behind")


def test_where_nothing_is_missing_that_is_said(run: Run, write: Write) -> None:
    result = run("doctor", "--snapshot", write("cluster.yaml", *told("a"), *told("b")))

    assert result.stdout == "2 nodes: nothing is missing for exact predictions\n"


def test_names_are_counted_unless_all_are_asked_for(run: Run, write: Write) -> None:
    path = write("many.yaml", *nodes(*(f"n{number}" for number in range(9))))

    assert (
        "  lack  no-topology: 9 nodes (n0, n1, n2, n3, n4 and 4 more)\n"
        in run("doctor", "--snapshot", path).stdout
    )
    every = run("doctor", "--all", "--snapshot", path).stdout
    assert "  lack  no-topology: 9 nodes (n0, n1, n2, n3, n4, n5, n6, n7, n8)\n" in every


def test_what_is_wrong_with_objects_is_told_here_and_nowhere_else(run: Run, write: Write) -> None:
    broken = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "a"},
        "zones": [{"name": f"node-{zone}", "type": "Node", "costs": 1} for zone in range(7)],
    }
    result = run("doctor", "--snapshot", write("broken.yaml", broken, *nodes("a")))

    assert result.stderr == ""
    assert "  lack  bad-topology: 1 node (a)\n" in result.stdout
    assert (
        "        * a: NodeResourceTopology: zones[4].costs: must be a list, not a number\n" in result.stdout
    )
    assert "        * and 2 more (--all shows them)\n" in result.stdout


def test_problems_of_other_objects_are_told_beside(run: Run, write: Write) -> None:
    namespace = known("Namespace", "team", metadata={"labels": {"numalign.io/enforce": "strictly"}})
    result = run("doctor", "--snapshot", write("cluster.yaml", namespace, *nodes("a")))

    assert result.stderr.startswith("skipped: Namespace team: ")


def test_pods_that_ask_where_nothing_is_known_are_named(run: Run, write: Write) -> None:
    asking = manifest("p", "2", policy="restricted", namespace="team")
    asking["spec"]["nodeName"] = "a"
    stdout = run("doctor", "--snapshot", write("cluster.yaml", asking, *nodes("a"))).stdout

    assert "  lack  unjudged-pods: 1 node (a)\n" in stdout
    assert "        * a: team/p\n" in stdout


@pytest.fixture
def agents_until_2020(cluster_file: Path) -> None:
    """All agents fell silent then."""
    cluster_file.write_text(json.dumps(listed(*told("a", at="2020-01-01T00:00:00Z"), manifest("p", "2"))))


@pytest.mark.usefixtures("agents_until_2020")
def test_agents_of_a_running_cluster_are_silent_since_they_wrote_and_those_of_a_file_since_the_last_one_did(
    run: Run, api_server: Path, cluster_file: Path
) -> None:
    running = run("doctor", "--kubeconfig", api_server)
    assert running.exit_code == 1
    assert "  lack  stale: 1 node (a)\n" in running.stdout

    assert run("doctor", "--snapshot", cluster_file).exit_code == 0


@pytest.fixture
def asked_on_hidden(cluster_file: Path) -> None:
    """A pod that asks runs where nothing is known."""
    asking = manifest("p", "2", policy="restricted", namespace="team")
    asking["spec"]["nodeName"] = "hidden"
    items = json.loads(cluster_file.read_text())["items"]
    cluster_file.write_text(json.dumps(listed(*items, asking)))


@pytest.mark.usefixtures("asked_on_hidden")
@pytest.mark.parametrize(("flags", "asked"), [((), False), (("--with-pods",), True)], ids=["without", "with"])
def test_a_running_cluster_is_asked_for_pods_only_if_told_to(
    run: Run, api_server: Path, *, flags: tuple[str, ...], asked: bool
) -> None:
    result = run("doctor", *flags, "--kubeconfig", api_server)

    assert result.exit_code == 1
    assert ("unjudged-pods" in result.stdout) is asked


def test_colour_comes_only_when_asked_for(run: Run, cluster_file: Path) -> None:
    arguments = ("doctor", "--snapshot", cluster_file)

    assert "\x1b[" not in run(*arguments).stdout
    assert "\x1b[31m" in run(*arguments, FORCE_COLOR="1", TERM="xterm-256color").stdout


def test_nodes_with_findings_are_listed_by_name(run: Run, cluster_file: Path) -> None:
    result = run("doctor", "--snapshot", cluster_file, "-o", "name")

    assert (result.exit_code, result.stdout.split()) == (1, ["node/big", "node/hidden", "node/small"])


def test_each_has_a_line_with_what_it_lacks(run: Run, cluster_file: Path) -> None:
    lines = run("doctor", "node/hidden", "--snapshot", cluster_file, "-o", "wide").stdout.splitlines()

    assert [line.split() for line in lines] == [
        ["NAME", "LACKS", "NOTES", "KNOWN", "SOURCE", "AGE"],
        ["hidden", "no-topology", "<none>", "nothing", "none", "<none>"],
    ]


def test_nodes_are_selected_by_label(run: Run, cluster_file: Path) -> None:
    cluster = json.loads(cluster_file.read_text())
    [big] = [each for each in cluster["items"] if (each["kind"], each["metadata"]["name"]) == ("Node", "big")]
    big["metadata"]["labels"] = {"pool": "a"}
    cluster_file.write_text(json.dumps(cluster))

    selected = run("doctor", "-l", "pool=a", "--snapshot", cluster_file, "-o", "json").stdout
    assert [node["name"] for node in json.loads(selected)] == ["big"]
