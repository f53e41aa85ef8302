"""check: one line for each pod, and an exit code for pipelines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Write = Callable[..., Path]
Run = Callable[..., Result]

SINGLE = "single-numa-node"


def test_a_folder_with_all_results(run: Run, cluster_file: Path, write: Write, tmp_path: Path) -> None:
    first = write("dir/a.yaml", manifest("a", "8"), manifest("b", "8", namespace="strict"))
    second = write("dir/deep/b.yaml", manifest("c", "8", policy="tight"))
    result = run("check", "-f", tmp_path / "dir", "--snapshot", cluster_file)
    assert result.exit_code == 2
    policies = "none, best-effort, restricted, single-numa-node"
    denied = (
        'namespace "strict" enforces NUMA alignment of at least restricted, and the pod requests none. '
        "Set annotation numalign.io/policy to restricted or single-numa-node."
    )
    bad = (
        f'metadata.annotations[numalign.io/policy]: "tight" is not a known value; expected one of {policies}'
    )
    assert result.stdout.splitlines() == [
        f"ok      default/a ({first}, document 1): no intent, 2 of 2 nodes could run it",
        f"denied  strict/b ({first}, document 2): {denied}",
        f"bad     default/c ({second}, document 1): {bad}",
        "3 pods: 1 bad, 1 denied, 1 ok",
    ]
    assert result.stderr.startswith(
        f"{second}, document 1 (Pod c): metadata.annotations[numalign.io/policy]: "
    )


def test_a_pod_may_not_leave_out_what_the_nodes_of_the_cluster_align(
    run: Run, cluster_file: Path, write: Write
) -> None:
    made = manifest("a", "8", policy=SINGLE, namespace="strict")
    made["metadata"]["annotations"]["numalign.io/resources"] = "cpu"
    result = run("check", "-f", write("a.yaml", made), "--snapshot", cluster_file)

    assert result.exit_code == 1
    assert "at least restricted, and numalign.io/resources lacks memory." in result.stdout


@pytest.mark.parametrize(
    ("cpus", "code"),
    table(
        [
            ("all could run", ["8", "32"], 0),
            ("one never could", ["8", "33"], 1),
            ("one cannot be read", ["33", "x"], 2),
            ("no pods at all", [], 0),
        ]
    ),
)
def test_the_exit_code(run: Run, cluster_file: Path, write: Write, cpus: list[str], code: int) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    path = write("p.yaml", service, *(manifest("a", cpu, policy=SINGLE) for cpu in cpus))
    assert run("check", "-f", path, "--snapshot", cluster_file).exit_code == code


def test_nothing_is_left_out_in_silence(run: Run, cluster_file: Path, write: Write) -> None:
    thing = {
        "apiVersion": "x.io/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"server": manifest("a", "33", policy="single-numa-node")},
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    path = write("all.yaml", thing, service, manifest("b", "8"))
    result = run("check", "-f", path, "--snapshot", cluster_file)
    # A guess decides nothing.
    assert result.exit_code == 0
    first, warning, *others = result.stdout.splitlines()
    assert first.startswith(f"never   default/a ({path}, document 1, spec.server, guessed): ")
    assert warning == "        warning: Thing.x.io is an unknown kind: found a pod template at spec.server"
    assert others[1:] == ["2 pods: 1 never, 1 ok, 1 with warnings"]
    assert result.stderr.splitlines() == ["1 object without pods: 1 Service"]


def test_json_has_one_entry_for_each_pod(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"), manifest("b", "33", policy=SINGLE))
    found = json.loads(run("check", "-f", path, "--snapshot", cluster_file, "-o", "json").stdout)
    assert [(each["pod"], each["document"], each["result"]) for each in found] == [
        ("a", 1, "ok"),
        ("b", 2, "never"),
    ]


@pytest.mark.parametrize(
    ("chosen", "code", "said"),
    table(
        [
            ("nothing", [], 0, "warning: no node with a NUMA topology can align the pod; 1 node without"),
            ("nodes without topology", ["--unknown-nodes", "cannot-fit"], 1, "never"),
            ("who creates the pods", ["--unknown-nodes", "cannot-fit", "--created-by", "ci"], 0, "ok"),
            ("who else does", ["--unknown-nodes", "cannot-fit", "--created-by", "jane"], 1, "never"),
        ]
    ),
)
def test_the_webhook_may_be_told(  # noqa: PLR0913, PLR0917 - the fixtures and the table
    run: Run,
    cluster_file: Path,
    write: Write,
    chosen: list[str],
    code: int,
    said: str,
) -> None:
    small = {"metadata": {"name": "hidden"}, "status": {"allocatable": {"cpu": "64", "memory": "128Gi"}}}
    items = [each for each in json.loads(cluster_file.read_text())["items"] if each["kind"] != "Node"]
    nodes = [{"apiVersion": "v1", "kind": "Node", **small}] + [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("big", "small")
    ]
    cluster = write("c.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *items]}))
    policy = write("policy.yaml", {"exemptions": {"users": ["ci"]}})
    pod = write("p.yaml", manifest("a", "33", policy=SINGLE))
    result = run("check", "-f", pod, "--snapshot", cluster, "--policy", policy, *chosen)
    assert result.exit_code == code
    assert said in result.stdout


def test_where_the_context_says_which_namespace_its_rules_are_heard(
    run: Run, api_server: Path, write: Write
) -> None:
    pod = write("p.yaml", manifest("a", "33"))
    result = run("check", "-f", pod, "--kubeconfig", api_server)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"never   eager/a ({pod}, document 1): no node can align container ")
    assert run("check", "-f", pod, "--kubeconfig", api_server, "-n", "default").exit_code == 0


def test_manifests_are_listed_in_all_forms(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"), manifest("b", "8", namespace="strict"))

    def lines(form: str) -> list[str]:
        return run("check", "-f", path, "--snapshot", cluster_file, "-o", form).stdout.splitlines()

    assert lines("name") == ["pod/a", "pod/b"]
    header, first, second = lines("wide")
    assert header.split() == ["RESULT", "NAMESPACE", "NAME", "KIND", "WHERE", "WARNINGS", "REASON"]
    assert first.split()[:4] == ["ok", "default", "a", "Pod"]
    assert 'namespace "strict" enforces NUMA alignment of at least restricted' in second
    assert lines("yaml")[0].startswith("- file: ")
