"""explain: a pod by its manifest or its name."""

import json
from http import HTTPStatus

from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import (
    SERVICE,
    SINGLE,
    deployment,
    manifest,
    rejected,
    running,
)


def test_flags_decide_how_a_manifest_is_explained(cli: Cli) -> None:
    restricted = manifest("a", policy="restricted")
    [most], [least] = (
        cli.json(*cli.explain(manifest("a")), "--strategy", strategy)
        for strategy in ("MostAllocated", "LeastAllocated")
    )

    assert "(namespace default)" in cli.text(*cli.explain(manifest("a")), "-n", "eager")
    equal = 'Topology Manager policy "single-numa-node", not "restricted"'
    assert equal in cli.text(*cli.explain(restricted), "--policy-match", "equal")
    in_depth = cli.text(*cli.explain(manifest("a", "32", policy="restricted")), "--node", "big")
    assert "  topology hint      container main: zone 1, preferred" in in_depth
    assert (most["nodes"][0]["score"], least["nodes"][0]["score"]) == (53, 46)


def test_a_rejected_pod_begins_with_its_rejection(cli: Cli) -> None:
    path = cli.cluster(rejected("no"))
    first, second = cli.text("explain", "no", "--snapshot", path).splitlines()[:2]
    [document] = cli.json("explain", "no", "--snapshot", path)

    reason, message = "TopologyAffinityError", "Resources cannot be allocated"
    assert first == f"rejected by big 4 min ago: {reason}: {message}"
    assert second == "default/no requests no NUMA alignment; each node's kubelet policy applies"
    assert document["rejected"].pop("at").startswith("20")
    assert document["rejected"] == {
        "node": "big",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
    }


def test_manifests_come_through_a_pipe(cli: Cli) -> None:
    result = cli("explain", "-f", "-", "--snapshot", cli.cluster(), stdin=json.dumps(manifest("piped", "1")))

    assert result.stdout.startswith("default/piped ")


def test_text_has_a_limit_and_json_has_every_node(cli: Cli) -> None:
    words = (*cli.explain(manifest("a", "32")), "--limit")
    more = "  and 1 more node (--limit 0 shows them all)\n"

    assert [cli.text(*words, limit).count(more) for limit in (1, 2, 0)] == [1, 0, 0]
    assert [node["name"] for node in cli.json(*words, 1)[0]["nodes"]] == ["big", "small"]


TRAINING = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}}
TIGHT = 'document 3 (Pod c): metadata.annotations[numalign.io/policy]: "tight"'


def test_unexplained_objects_are_on_standard_error(cli: Cli) -> None:
    pods = (manifest("a", "many"), manifest("b", "1"), manifest("c", "1", policy="tight"))
    mistakes, none, elsewhere = (
        cli(*cli.explain(*objects), width=400) for objects in (pods, [SERVICE], [TRAINING])
    )

    assert (mistakes.exit_code, mistakes.stdout[:10]) == (2, "default/b ")
    assert "document 1 (Pod a): spec.containers[0].resources.limits.cpu: " in mistakes.stderr
    assert TIGHT in mistakes.stderr
    assert (none.exit_code, none.stdout, elsewhere.exit_code, elsewhere.stdout) == (0, "", 0, "")
    assert "nothing to explain: the manifests contain no pods\n1 object without pods: 1 Serv" in none.stderr
    assert "document 1: the pods of a TrainJob.trainer.kubeflow." in elsewhere.stderr


def test_workloads_are_explained_by_name(cli: Cli, served: FakeCluster) -> None:
    """Of a snapshot, of a cluster, and of a type whose version only the cluster knows."""
    trainer = deployment("big", "eager") | {"apiVersion": "example.com/v1beta3", "kind": "Trainer"}
    served.api.documents |= {
        "/apis/apps/v1/namespaces/eager/deployments/web": deployment("web", "eager"),
        "/apis/example.com": {"preferredVersion": {"version": "v1beta3"}},
        "/apis/example.com/v1beta3/namespaces/eager/trainers/big": trainer,
    }
    live = ("--kubeconfig", served.kubeconfig)

    [web] = cli.json("explain", "deploy/web", *live)
    assert (web["namespace"], web["demand"]["total"]) == ("eager", {"cpu": "4", "memory": "4Gi"})
    assert len(cli.json("explain", "trainers.example.com/big", *live)) == 1
    [web] = cli.json("explain", "deploy/web", "--snapshot", cli.cluster(deployment("web")))
    assert web["namespace"] == "default"


def test_nodes_are_listed_as_names_and_as_a_table(cli: Cli) -> None:
    assert cli.text(*cli.explain(manifest("a", "4")), "-o", "name") == "node/big\nnode/small\n"
    one = cli.explain(manifest("a", "20", policy=SINGLE))
    assert cli.text(*one, "-o", "name") == "node/big\n"
    heading, *lines = cli.text(*one, "-o", "wide").splitlines()
    assert heading.split() == ["POD", "NODE", "VERDICT", "SCORE", "ZONES", "CLASS", "REASON"]
    assert [line.split()[:4] for line in lines] == [
        ["default/a", "big", "fits", "94"],
        ["default/a", "small", "never", "<none>"],
    ]
    assert "zone 1: 20 cpu, 4Gi memory" in lines[0]


def test_pods_that_the_exporter_lacks_count(cli: Cli, served: FakeCluster) -> None:
    """Unless they may not be listed."""
    pod = cli.write("p.yaml", manifest("a", "16", policy=SINGLE))
    words = ("explain", "-f", pod, "--kubeconfig", served.kubeconfig)

    def verdicts() -> list[str]:
        return [node["verdict"] for node in cli.json(*words)[0]["nodes"]]

    assert verdicts() == ["fits", "never"]
    served.put(*(running(name, cpu="30") for name in "bc"))
    assert (verdicts(), cli(*words).stderr) == (["later", "never"], "")
    served.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
    assert verdicts() == ["fits", "never"]
    assert "pods: unknown, so only what nodes report is counted: " in cli(*words).stderr
