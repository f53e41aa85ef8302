"""check -f: the line, the exit code and the JSON of each pod of manifests."""

from typing import Any

import pytest

from kubectl_numa import checking, manifests
from kubectl_numa.checking import Checked
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.kube.files import snapshot
from numalign.kube.files.policy import parse
from numalign.model.intent import NamespaceRules
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import (
    ITEMS,
    SERVICE,
    SINGLE,
    deployment,
    machine_object,
    manifest,
    training_runtime,
    unknown_kind,
    view,
    volcano_job,
)
from tests.worlds.naming import named
from tests.worlds.notation import node, table
from tests.worlds.objects import Json


def checked(cli: Cli, cluster: ClusterView, *documents: object) -> list[Checked]:
    path = cli.write("p.yaml", *documents)
    return [checking.check(each, cluster) for each in manifests.read(str(path))]


def small(policy: str = "{}", options: WebhookOptions | None = None) -> ClusterView:
    """The small cluster with a policy file and the options of its webhook."""
    return ClusterView(snapshot.of(ITEMS), parse(policy.encode()), options or WebhookOptions())


VAST, ONE = node(*["cpu=8 mem=64Gi"] * 18, policy="restricted"), node("cpu=8 mem=64Gi", policy="restricted")
CI = WebhookOptions(created_by="system:ci")
EXEMPT, DEFAULT = "exemptions: {users: ['system:*']}", "defaults: [{default: single-numa-node}]"
RESTRICTED, LARGE = manifest("a", policy="restricted"), manifest("a", "33", policy=SINGLE)
IN_PART = manifest("a", "3500m", policy="restricted")
A100: dict[str, Any] = {"nodeSelector": {"gpu": "a100"}, "tolerations": [{"operator": "Exists"}]}
ANNOTATED = deployment("a", "default", **{"numalign.io/policy": "restricted"})
TRAIN_JOB = {"apiVersion": "trainer.kubeflow.org/v1", "kind": "TrainJob", "metadata": {"name": "a"}}
RESULTS: list[tuple[str, ClusterView, Json, str, int, str, str]] = [
    # the cluster, the object, its result, the exit code, the end of its line, the beginning of its warning
    ("fits", small(), RESTRICTED, "ok", 0, "restricted, 2 of 2 nodes could run it", ""),
    ("fits when empty", small(), manifest("a", "32"), "ok", 0, "no intent, 1 of 2 nodes could run it", ""),
    ("never", small(), LARGE, "never", 1, "Request at most 32 cpu.", ""),
    ("below enforce", small(), manifest("a", namespace="strict"), "denied", 1, "or single-numa-node.", ""),
    ("a misspelt policy", small(), manifest("a", policy="sngle"), "bad", 2,
        "expected one of none, best-effort, restricted, single-numa-node", ""),
    ("an exempt namespace", small(), manifest("a", policy="x", namespace="closed"), "ok", 0,
        "no intent, 2 of 2 nodes could run it", ""),
    ("some nodes are not evaluated", view(*named([VAST, ONE])), manifest("a", "2", policy="restricted"),
        "ok", 0, "restricted, 1 of 2 nodes could run it, 1 not evaluated", "1 node was not evaluated: "),
    ("another scheduler", view(ONE, rules=NamespaceRules(scheduler="second")), RESTRICTED, "ok", 0,
        "restricted, 1 of 2 nodes could run it, assigned to the scheduler second by its namespace", ""),
    ("a label that no node has", view(ONE), manifest("a", policy="restricted", **A100), "unknown", 0,
        ": restricted, 0 of 2 nodes could run it: no node has gpu=a100", "NUMA alignment was not checked: "),
    ("a label that no node has, no policy", view(ONE), manifest("a", **A100), "unknown", 0,
        ": no intent, 0 of 2 nodes could run it: no node has gpu=a100", ""),
    ("no node could run it", view(ONE), manifest("a", "33"), "ok", 0, "no intent, 0 of 2 nodes could run it",
        "no node can run the pod (0 of 1 node): 1 has at most 8 cpu in total"),
    ("an annotation of a workload", small(), ANNOTATED, "ok", 0, "no intent, 2 of 2 nodes could run it",
        "metadata.annotations[numalign.io/policy] has no effect"),
    ("a policy that only warns", small("never: warn"), LARGE, "ok", 0,
        "single-numa-node, 0 of 2 nodes could run it",
        'no node can align container "main" as single-numa-node'),
    ("pods that are elsewhere", small(), TRAIN_JOB, "unknown", 0, ": its pods were not checked",
        "the pods of a TrainJob.trainer.kubeflow.org"),
    ("an exempt user", small(EXEMPT, CI), LARGE, "ok", 0, "no intent, 0 of 2 nodes could run it",
        'no node can run container "main" '),
    ("a default", small(DEFAULT), manifest("a", "33"), "never", 1, "Request at most 32 cpu.", ""),
    ("a part of a pod is denied", small("partial: deny"), IN_PART, "denied", 1, "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "made", "result", "code", "end", "warning"), table(RESULTS))
def test_a_pod_has_one_line(  # noqa: PLR0913, PLR0917  the columns
    cli: Cli, cluster: ClusterView, made: Json, result: str, code: int, end: str, warning: str
) -> None:
    pod, plain = checked(cli, cluster, made, manifest("b"))
    line, document = pod.line(2), pod.to_json()

    assert (pod.result, checking.exit_code([pod]), plain.warnings) == (result, code, ())
    namespace = made["metadata"].get("namespace", "default")
    assert line.startswith(f"{namespace}/a ({cli.folder}/p.yaml, document 1")
    assert (line[len(line) - len(end) :], "\n" in line) == (end, False)
    assert [each[: len(warning)] for each in document["warnings"]] == [warning] * bool(warning)
    assert checking.summary([pod]) == f"1 pod: 1 {result}{', 1 with warnings' * bool(warning)}"
    assert line.endswith(document["reason"] or end)
    assert bool(document["reason"]) == (code == 1 or "no node has" in end)


def test_json_of_a_pod_and_of_a_mistake(cli: Cli) -> None:
    good, bad = (
        each.to_json() for each in checked(cli, small(), manifest("a"), manifest("b", "8 cores", policy="x"))
    )
    nothing = dict.fromkeys(("template", "scheduler", "gate", "reason", "refusal"))
    place = {"file": str(cli.folder / "p.yaml"), "document": 1, "kind": "Pod", "guessed": False}
    facts = {"pod": "a", "namespace": "default", "result": "ok", "able": 2, "notAnswered": 0}

    assert good == {**nothing, **place, **facts, "warnings": [], "mistakes": []}
    assert (bad["pod"], bad["namespace"], bad["result"], bad["able"]) == ("b", "default", "bad", 0)
    places = ("metadata.annotations[numalign.io/policy]: ", "spec.containers[0].resources.limits.cpu: ")
    assert [each.startswith(place) for each, place in zip(bad["mistakes"], places, strict=True)] == [True] * 2
    assert bad["refusal"].endswith("single-numa-node (and 1 more)")


def test_cluster_scoped_objects_have_no_namespace_rules(cli: Cli, cluster: ClusterView) -> None:
    for kind, result, name in (
        ("TrainingRuntime", "denied", "strict/torch"),
        ("ClusterTrainingRuntime", "ok", "torch"),
    ):
        path = cli.write("runtime.yaml", training_runtime(kind))
        [read] = manifests.read(str(path), namespace=Namespace("strict", asked=True))
        answer = checking.check(read, cluster)

        assert answer.result == result
        assert answer.to_json()["namespace"] == (None if name == "torch" else "strict")
        assert answer.line(2).startswith(f"{name} ({path}, document 1, ")


def test_a_bad_file_has_its_path(cli: Cli) -> None:
    [file] = checked(cli, small(), "a: [")

    assert file.line(2).startswith(f"{cli.folder}/p.yaml: is not YAML")


def test_each_template_of_a_workload_is_checked(cli: Cli) -> None:
    results = checked(cli, small(), volcano_job(manifest("t"), LARGE, manifest("t", policy="x")))
    places = [f"spec.tasks[{at}].template" for at in range(3)]

    assert [each.result for each in results] == ["ok", "never", "bad"]
    assert [each.to_json()["template"] for each in results] == places
    assert [each.line(2).partition("): ")[0].rpartition(", ")[2] for each in results] == places
    [mistake] = results[2].manifest.located_mistakes()
    assert mistake.where.endswith(f"(Job train): {places[2]}.metadata.annotations[numalign.io/policy]")


def test_a_folder_is_checked_with_a_line_for_each_pod(cli: Cli) -> None:
    first = cli.write("dir/a.yaml", manifest("a"), manifest("b", namespace="strict"))
    second = cli.write("dir/deep/b.yaml", manifest("c", policy="tight"))
    result = cli("check", "-f", cli.folder / "dir", "--snapshot", cli.cluster())

    *lines, summary = result.stdout.splitlines()
    beginnings = [
        f"ok      default/a ({first}, document 1): no intent, 2 of 2 nodes could run it",
        f'denied  strict/b ({first}, document 2): namespace "strict" enforces NUMA alignment of at least ',
        f'bad     default/c ({second}, document 1): metadata.annotations[numalign.io/policy]: "tight" is ',
    ]
    assert [line[: len(begins)] for line, begins in zip(lines, beginnings, strict=True)] == beginnings
    assert (result.exit_code, summary) == (2, "3 pods: 1 bad, 1 denied, 1 ok")
    assert result.stderr.startswith(
        f"{second}, document 1 (Pod c): metadata.annotations[numalign.io/policy]: "
    )


@pytest.mark.parametrize(("cpus", "code"), [("8 32", 0), ("8 33", 1), ("33 x", 2), ("", 0)])
def test_exit_code_is_that_of_the_worst_manifest(cli: Cli, cpus: str, code: int) -> None:
    pods = (manifest("a", cpu, policy=SINGLE) for cpu in cpus.split())

    assert cli(*cli.check(SERVICE, *pods)).exit_code == code


def test_guessed_templates_decide_nothing_and_are_listed(cli: Cli) -> None:
    result = cli(*cli.check(unknown_kind(manifest("a", "33", policy=SINGLE)), SERVICE, manifest("b")))
    first, warning, *others = result.stdout.splitlines()
    place = f"{cli.folder}/pods.yaml, document 1, spec.template, guessed"

    assert result.exit_code == 0
    assert first.startswith(f"never   default/a ({place}): ")
    assert warning == "        warning: Thing.x.io is an unknown kind: found a pod template at spec.template"
    assert others[1:] == ["2 pods: 1 never, 1 ok, 1 with warnings"]
    assert result.stderr.splitlines() == ["1 object without pods: 1 Service"]


FLAGS = [
    ("defaults", "", 0, "warning: no node with a NUMA topology can align the pod; 1 node without"),
    ("nodes without topology", "--unknown-nodes cannot-fit", 1, "never"),
    ("an exempt user", "--unknown-nodes cannot-fit --created-by ci", 0, "ok"),
]


@pytest.mark.parametrize(("flags", "code", "part"), table(FLAGS))
def test_flags_stand_for_those_of_the_webhook(cli: Cli, flags: str, code: int, part: str) -> None:
    hidden = machine_object("hidden", cpu="64", memory="128Gi")
    nodes = [hidden, machine_object("big"), machine_object("small")]
    others = [item for item in ITEMS if item["kind"] != "Node"]
    policy = cli.write("policy.yaml", {"exemptions": {"users": ["ci"]}})
    pod = cli.write("p.yaml", manifest("a", "33", policy=SINGLE))
    snapshot = cli.cluster(items=[*nodes, *others])
    result = cli("check", "-f", pod, "--snapshot", snapshot, "--policy", policy, *flags.split())

    assert (result.exit_code, part in result.stdout) == (code, True)


def test_namespace_of_the_context_gives_its_rules(cli: Cli, served: FakeCluster) -> None:
    pod = cli.write("p.yaml", manifest("a", "33"))
    words = ("check", "-f", pod, "--kubeconfig", served.kubeconfig)
    result = cli(*words)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"never   eager/a ({pod}, document 1): no node can align container ")
    assert cli(*words, "-n", "default").exit_code == 0
