"""explain: a pod by its manifest or its name, and clear words for everything that is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import ITEMS, manifest, rejected

Write = Callable[..., Path]
Run = Callable[..., Result]


def test_a_manifest_is_explained(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8", policy="restricted"))
    result = run("explain", "-f", path, "--snapshot", cluster_file)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("default/a requests restricted alignment\n")


def test_what_a_policy_does_not_apply_to_is_explained(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "3500m", policy="restricted"))
    text = (
        'restricted applies to memory only: cpu is not pinned, because container "main" requests 3500m cpu,'
        " which is not a whole number"
    )

    told = run("explain", "-f", path, "--snapshot", cluster_file, COLUMNS="200").stdout
    (for_programs,) = json.loads(run("explain", "-f", path, "--snapshot", cluster_file, "-o", "json").stdout)

    assert f"  warning: {text}\n" in told
    assert for_programs["warnings"] == [text]


def test_json_is_a_list_with_one_entry_for_each_pod(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"), manifest("b", "64", policy="restricted"))
    result = run("explain", "-f", path, "--snapshot", cluster_file, "-o", "json")
    first, second = json.loads(result.stdout)
    assert [node["verdict"] for node in first["nodes"]] == ["fits", "fits"]
    assert [node["permanent"] for node in second["nodes"]] == [True, True]
    assert second["refusal"].startswith("no node can align")


def test_a_namespace_gives_its_default(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"))
    result = run("explain", "-f", path, "-n", "eager", "--snapshot", cluster_file, "-o", "json")
    assert json.loads(result.stdout)[0]["intent"]["from"] == "namespace"


def test_a_pod_of_the_snapshot_goes_by_its_name(run: Run, cluster_file: Path) -> None:
    result = run("explain", "stored", "--snapshot", cluster_file)
    assert result.exit_code == 0
    assert result.stdout.startswith("default/stored requests no NUMA alignment")


def test_a_pod_that_its_kubelet_rejected_says_so_first(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS, rejected("no")]}))
    explained = run("explain", "no", "--snapshot", path, COLUMNS="200")
    [document] = json.loads(run("explain", "no", "--snapshot", path, "-o", "json").stdout)

    first, second = explained.stdout.splitlines()[:2]
    assert first == "rejected by big 4 min ago: TopologyAffinityError: Resources cannot be allocated"
    assert second == "default/no requests no NUMA alignment; each node's kubelet policy applies"
    assert document["rejected"].pop("at").startswith("20")
    assert document["rejected"] == {
        "node": "big",
        "reason": "TopologyAffinityError",
        "message": "Pod was rejected: Resources cannot be allocated",
    }


def test_others_were_not_rejected(run: Run, cluster_file: Path) -> None:
    [document] = json.loads(run("explain", "stored", "--snapshot", cluster_file, "-o", "json").stdout)
    assert document["rejected"] is None


def test_manifests_come_through_a_pipe(run: Run, cluster_file: Path) -> None:
    result = run("explain", "-f", "-", "--snapshot", cluster_file, stdin=json.dumps(manifest("piped", "1")))
    assert result.stdout.startswith("default/piped ")


def test_the_strategy_changes_the_score(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"))
    scores = [
        json.loads(
            run(
                *("explain", "-f", path, "--snapshot", cluster_file, "-o", "json", "--strategy", strategy)
            ).stdout
        )[0]["nodes"][0]["score"]
        for strategy in ("MostAllocated", "LeastAllocated")
    ]
    assert scores == [53, 46]


def test_the_same_policy_may_be_asked_for(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8", policy="restricted"))
    result = run("explain", "-f", path, "--snapshot", cluster_file, "--policy-match", "equal")
    assert 'Topology Manager policy "single-numa-node", not "restricted"' in " ".join(result.stdout.split())


def test_one_node_in_depth(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "32", policy="restricted"))
    result = run("explain", "-f", path, "--snapshot", cluster_file, "--node", "big")
    assert "small" not in result.stdout
    assert "zone 0  ████████████" in result.stdout
    assert "  topology hint      container main: zone 1, preferred" in result.stdout


@pytest.mark.parametrize(("limit", "others"), [("1", 1), ("2", 0), ("0", 0)])
def test_the_best_groups_are_shown_and_json_holds_every_node(
    run: Run, cluster_file: Path, write: Write, limit: str, others: int
) -> None:
    manifests = write("p.yaml", manifest("a", "32"))
    asked = ("explain", "-f", manifests, "--snapshot", cluster_file, "--limit", limit)
    assert run(*asked).stdout.count("  and 1 more node (--limit 0 shows them all)\n") == others
    [entry] = json.loads(run(*asked, "-o", "json").stdout)
    assert [node["name"] for node in entry["nodes"]] == ["big", "small"]


def test_mistakes_do_not_hide_the_other_pods(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "many"), manifest("b", "1"), manifest("c", "1", policy="tight"))
    result = run("explain", "-f", path, "--snapshot", cluster_file)
    assert result.exit_code == 2
    assert result.stdout.startswith("default/b ")
    assert result.stderr.startswith(f"{path}, document 1 (Pod a): spec.containers[0].resources.limits.cpu: ")
    assert f'{path}, document 3 (Pod c): metadata.annotations[numalign.io/policy]: "tight"' in result.stderr


def test_no_pod_is_nothing_to_explain(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("s.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
    result = run("explain", "-f", path, "--snapshot", cluster_file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "nothing to explain: the manifests contain no pods",
        "1 object without pods: 1 Service",
    ]


def test_a_pod_that_cannot_be_read_is_one(run: Run, cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "many"))
    result = run("explain", "-f", path, "--snapshot", cluster_file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{path}, document 1 (Pod a): ")


def test_a_kind_that_is_not_understood_is_told(run: Run, cluster_file: Path, write: Write) -> None:
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}}
    path = write("job.yaml", job)
    result = run("explain", "-f", path, "--snapshot", cluster_file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{path}, document 1: the pods of a TrainJob.trainer.kubeflow.org ")


@pytest.mark.parametrize("policy", ["single-numa-node", "strictly"])
def test_a_pod_that_is_guessed_is_explained_and_its_mistakes_end_nothing(
    run: Run, cluster_file: Path, write: Write, policy: str
) -> None:
    pod = manifest("a", "8", policy=policy)
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {}, "spec": {"template": template}}
    result = run("explain", "-f", write("t.yaml", thing), "--snapshot", cluster_file)
    assert result.exit_code == 0
    told = result.stdout if policy == "single-numa-node" else result.stderr
    assert "Thing.x.io is an unknown kind: found a pod template at spec.template" in " ".join(told.split())
    assert ('"strictly" is not a known value' in result.stderr) == (policy == "strictly")


def test_an_object_without_a_namespace_has_only_its_name(run: Run, cluster_file: Path, write: Write) -> None:
    template = {"spec": manifest("x", "8")["spec"]}
    job = {"name": "node", "template": {"spec": {"template": template}}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    asked = ("explain", "-n", "strict", "-f", write("runtime.yaml", runtime), "--snapshot", cluster_file)

    assert run(*asked).stdout.startswith("torch ")
    assert json.loads(run(*asked, "-o", "json").stdout)[0]["namespace"] is None
    assert run(*asked, "-o", "wide").stdout.split("\n")[1].startswith("torch ")


def deployment(name: str, namespace: str = "eager") -> dict[str, Any]:
    """A Deployment of pods of four CPUs."""
    template = {"metadata": {}, "spec": manifest("x", "4")["spec"]}
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"template": template},
    }


def test_a_workload_of_the_cluster_stands_for_its_pods(
    run: Run, api_server: Path, objects: dict[str, Any]
) -> None:
    objects["/apis/apps/v1/namespaces/eager/deployments/web"] = deployment("web")

    result = run("explain", "deploy/web", "--kubeconfig", api_server, "-o", "json")

    assert result.exit_code == 0, result.output
    [explained] = json.loads(result.stdout)
    assert (explained["namespace"], explained["demand"]["total"]) == ("eager", {"cpu": "4", "memory": "4Gi"})


def test_of_a_type_that_is_not_built_in_the_cluster_says_the_version(
    run: Run, api_server: Path, objects: dict[str, Any]
) -> None:
    objects["/apis/example.com"] = {"preferredVersion": {"version": "v1beta3"}}
    trainer = deployment("big") | {"apiVersion": "example.com/v1beta3", "kind": "Trainer"}
    objects["/apis/example.com/v1beta3/namespaces/eager/trainers/big"] = trainer

    result = run("explain", "trainers.example.com/big", "--kubeconfig", api_server, "-o", "json")

    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == 1


def test_a_workload_of_a_snapshot_too(run: Run, cluster_file: Path) -> None:
    cluster = json.loads(cluster_file.read_text())
    cluster["items"].append(deployment("web", "default"))
    cluster_file.write_text(json.dumps(cluster))

    result = run("explain", "deploy/web", "--snapshot", cluster_file, "-o", "json")

    assert result.exit_code == 0, result.output
    assert [each["namespace"] for each in json.loads(result.stdout)] == ["default"]


def test_names_of_nodes_it_fits_on_the_best_first(run: Run, cluster_file: Path, write: Write) -> None:
    small = write("small.yaml", manifest("a", "4", policy="single-numa-node"))
    large = write("large.yaml", manifest("a", "20", policy="single-numa-node"))

    assert run("explain", "-f", small, "--snapshot", cluster_file, "-o", "name").stdout.split() == [
        "node/big",
        "node/small",
    ]
    assert run("explain", "-f", large, "--snapshot", cluster_file, "-o", "name").stdout == "node/big\n"


def test_a_line_for_each_node(run: Run, cluster_file: Path, write: Write) -> None:
    pod = write("p.yaml", manifest("a", "20", policy="single-numa-node"))

    heading, *lines = run("explain", "-f", pod, "--snapshot", cluster_file, "-o", "wide").stdout.splitlines()

    assert heading.split() == ["POD", "NODE", "VERDICT", "SCORE", "ZONES", "CLASS", "REASON"]
    assert [line.split()[:4] for line in lines] == [
        ["default/a", "big", "fits", "94"],
        ["default/a", "small", "never", "<none>"],
    ]
    assert "zone 1: 20 cpu, 4Gi memory" in lines[0]


def new(name: str, cpu: str) -> dict[str, Any]:
    """A pod on the node `big` that its kubelet has just started."""
    pod = manifest(name, cpu, policy="single-numa-node")
    return pod | {"spec": {**pod["spec"], "nodeName": "big"}, "status": {"phase": "Running"}}


def verdicts(result: Result) -> dict[str, str]:
    [explained] = json.loads(result.stdout)
    return {node["name"]: node["verdict"] for node in explained["nodes"]}


def test_the_pods_of_a_running_cluster_hold_what_the_exporter_has_not_counted(
    run: Run, api_server: Path, objects: dict[str, Any], write: Write
) -> None:
    pod = write("p.yaml", manifest("a", "16", policy="single-numa-node"))
    asked = ("explain", "-f", pod, "--kubeconfig", api_server, "-o", "json")
    assert verdicts(run(*asked)) == {"big": "fits", "small": "never"}

    objects["/api/v1/pods"] = {"items": [new("b", "30"), new("c", "30")]}
    assert verdicts(run(*asked)) == {"big": "later", "small": "never"}


def test_whoever_may_not_list_pods_gets_what_nodes_report(
    run: Run, api_server: Path, refusals: dict[str, str], write: Write
) -> None:
    pod = write("p.yaml", manifest("a", "16", policy="single-numa-node"))
    refusals["/api/v1/pods"] = "403 Forbidden"
    result = run("explain", "-f", pod, "--kubeconfig", api_server, "-o", "json")

    assert verdicts(result) == {"big": "fits", "small": "never"}
    assert "pods: unknown, so only what nodes report is counted: " in result.stderr
