"""Results of manifests: the line, the exit code and the JSON of each."""

import pytest

from kubectl_numa import checking, manifests
from kubectl_numa.checking import Checked
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.kube.files import snapshot
from numalign.kube.files.policy import parse
from numalign.model.intent import Match, NamespaceRules
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import (
    ITEMS,
    SINGLE,
    deployment,
    manifest,
    training_runtime,
    view,
    volcano_job,
)
from tests.worlds.naming import named
from tests.worlds.notation import node, table
from tests.worlds.objects import Json


def checked(cli: Cli, cluster: ClusterView, *documents: object) -> list[Checked]:
    path = cli.write("p.yaml", *documents)
    return [checking.check(each, cluster) for each in manifests.read(str(path))]


def small_cluster(policy: str = "{}", options: WebhookOptions | None = None) -> ClusterView:
    return ClusterView(snapshot.of(ITEMS), parse(policy.encode()), options or WebhookOptions())


RESULTS = [
    # CPUs, the other arguments of the manifest, the result, the exit code, and a part of the line
    ("fits", "8", {"policy": "restricted"}, "ok", 0, "restricted, 2 of 2 nodes could run it"),
    ("fits when empty", "32", {}, "ok", 0, "no intent, 1 of 2 nodes could run it"),
    ("never", "33", {"policy": SINGLE}, "never", 1, "1 has at most 32 cpu in one NUMA zone"),
    ("below enforce", "8", {"namespace": "strict"}, "denied", 1, "of at least restricted"),
    ("a misspelt policy", "8", {"policy": "sngle"}, "bad", 2, '"sngle" is not a known value'),
    ("an exempt namespace", "8", {"policy": "x", "namespace": "closed"}, "ok", 0, "no intent, 2 of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("cpu", "options", "result", "code", "part"), table(RESULTS))
def test_a_pod_has_one_line(  # noqa: PLR0913, PLR0917  the columns
    cli: Cli, cpu: str, options: dict[str, str], result: str, code: int, part: str
) -> None:
    [pod] = checked(cli, small_cluster(), manifest("a", cpu, **options))
    line = pod.line(2)

    assert (pod.result, checking.exit_code([pod])) == (result, code)
    assert (part in line, "\n" in line) == (True, False)
    assert line.startswith(f"{options.get('namespace', 'default')}/a (")


VAST = node(*["cpu=8 mem=64Gi"] * 18, policy="restricted")


def test_nodes_that_are_not_evaluated_are_counted_apart(cli: Cli) -> None:
    pod = manifest("a", "2", policy="restricted")
    cluster = view(*named([VAST, node("cpu=8 mem=64Gi", policy="restricted")]))
    [answered], [unanswered] = checked(cli, cluster, pod), checked(cli, view(VAST), pod)

    assert (answered.result, answered.able, answered.unanswered) == ("ok", 2, 1)
    assert answered.line(2).endswith("restricted, 1 of 2 nodes could run it, 1 not evaluated")
    assert (unanswered.result, unanswered.unanswered) == ("unknown", 1)


def test_json_of_a_pod_and_of_a_mistake(cli: Cli) -> None:
    good, bad = [
        each.to_json() for each in checked(cli, small_cluster(), manifest("a"), manifest("b", "8 cores"))
    ]

    assert good == {
        "file": str(cli.folder / "p.yaml"),
        "document": 1,
        "kind": "Pod",
        "template": None,
        "guessed": False,
        "pod": "a",
        "namespace": "default",
        "result": "ok",
        "scheduler": None,
        "gate": None,
        "able": 2,
        "notAnswered": 0,
        "reason": None,
        "refusal": None,
        "warnings": [],
        "mistakes": [],
    }
    assert (bad["pod"], bad["namespace"], bad["result"], bad["able"]) == ("b", "default", "bad", 0)
    for message in (bad["mistakes"][0], bad["refusal"]):
        assert message.startswith("spec.containers[0].resources.limits.cpu: ")


def test_assigned_scheduler_ends_the_line(cli: Cli) -> None:
    rules = NamespaceRules(scheduler="second")
    routed = view(node("cpu=8 mem=8Gi", policy="restricted"), rules=rules)
    aligned, plain = checked(cli, routed, manifest("a", policy="restricted"), manifest("b"))

    assert aligned.line(1).endswith(
        "restricted, 1 of 1 nodes could run it, assigned to the scheduler second by its namespace"
    )
    assert plain.line(1).endswith("no intent, 1 of 1 nodes could run it")
    assert (aligned.to_json()["scheduler"], aligned.to_json()["gate"]) == ("second", None)


@pytest.mark.parametrize(("policy", "intent"), [(None, "no intent"), ("restricted", "restricted")])
def test_a_label_that_no_node_has_is_unknown(cli: Cli, policy: str | None, intent: str) -> None:
    tolerations = [{"operator": "Exists"}]
    pod = manifest("a", policy=policy, nodeSelector={"gpu": "a100"}, tolerations=tolerations)
    [result] = checked(cli, view(node("cpu=8 mem=8Gi", policy="restricted")), pod)

    assert (result.result, checking.exit_code([result])) == ("unknown", 0)
    assert result.line(1).endswith(f": {intent}, 0 of 1 nodes could run it: no node has gpu=a100")
    assert result.to_json()["reason"] == "no node has gpu=a100"


WARNED: list[tuple[str, ClusterView, Json, str, str]] = [
    # the cluster, the object, its result, and the beginning of its warning
    ("no node could run it", view(node("cpu=8 mem=8Gi", policy="restricted")), manifest("a", "33"), "ok",
        "no node can run the pod (0 of 1 node): 1 has at most 8 cpu in total"),
    ("an annotation of a workload", small_cluster(),
        deployment("web", "default", **{"numalign.io/policy": "restricted"}), "ok",
        "metadata.annotations[numalign.io/policy] has no effect"),
    ("a policy that only warns", small_cluster("never: warn"), manifest("a", "33", policy=SINGLE), "ok",
        'no node can align container "main" as single-numa-node'),
    ("pods that are elsewhere", small_cluster(),
        {"apiVersion": "trainer.kubeflow.org/v1", "kind": "TrainJob", "metadata": {"name": "a"}}, "unknown",
        "the pods of a TrainJob.trainer.kubeflow.org"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "made", "result", "warning"), table(WARNED))
def test_a_warning_is_no_failure(
    cli: Cli, cluster: ClusterView, made: Json, result: str, warning: str
) -> None:
    warned, plain = checked(cli, cluster, made, manifest("b"))

    assert (warned.result, checking.exit_code([warned]), warned.refusal) == (result, 0, None)
    assert [each[: len(warning)] for each in warned.to_json()["warnings"]] == [warning]
    assert plain.warnings == ()
    assert checking.summary([warned]) == f"1 pod: 1 {result}, 1 with warnings"


def test_pods_that_are_elsewhere_were_not_checked(cli: Cli) -> None:
    [train] = checked(cli, small_cluster(), WARNED[-1][2])

    assert train.line(2) == f"default/a ({cli.folder}/p.yaml, document 1): its pods were not checked"


@pytest.mark.parametrize(
    ("kind", "result", "name", "namespace"),
    [
        ("TrainingRuntime", "denied", "strict/torch", "strict"),
        ("ClusterTrainingRuntime", "ok", "torch", None),
    ],
)
def test_cluster_scoped_objects_have_no_namespace_rules(  # noqa: PLR0913, PLR0917  the columns
    cli: Cli, cluster: ClusterView, kind: str, result: str, name: str, namespace: str | None
) -> None:
    path = cli.write("runtime.yaml", training_runtime(kind))
    [read] = manifests.read(str(path), namespace=Namespace("strict", asked=True))
    answer = checking.check(read, cluster)

    assert (answer.result, answer.to_json()["namespace"]) == (result, namespace)
    assert answer.line(2).startswith(f"{name} ({path}, document 1, ")


def test_a_bad_pod_has_its_name_and_a_bad_file_its_path(cli: Cli) -> None:
    [pod], [file] = (
        checked(cli, small_cluster(), manifest("a", "8 cores")),
        checked(cli, small_cluster(), "a: ["),
    )
    path = cli.folder / "p.yaml"

    assert pod.line(2).startswith(f"default/a ({path}, document 1): spec.")
    assert file.line(2).startswith(f"{path}: is not YAML")


POLICIES = [
    # the policy file, the options of the webhook, the manifest, and its result
    ("an exempt user", "exemptions: {users: ['system:*']}", WebhookOptions(created_by="system:ci"),
        manifest("a", "33", policy=SINGLE), "ok"),
    ("a default", "defaults: [{default: single-numa-node}]", None, manifest("a", "33"), "never"),
    ("an equal policy", "{}", WebhookOptions(match=Match.EQUAL, unknown_may_fit=False),
        manifest("a", policy="restricted"), "never"),
    ("a part of a pod is denied", "partial: deny", None, manifest("a", "3500m", policy="restricted"),
        "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "options", "pod", "result"), table(POLICIES))
def test_cluster_policy_and_flags_count(
    cli: Cli, policy: str, options: WebhookOptions | None, pod: Json, result: str
) -> None:
    [answer] = checked(cli, small_cluster(policy, options), pod)

    assert answer.result == result
    assert not any("applies to" in warning for warning in answer.warnings)


def test_each_template_of_a_workload_is_checked(cli: Cli) -> None:
    pods = [manifest("t"), manifest("t", "33", policy=SINGLE), manifest("t", policy="x")]
    results = checked(cli, small_cluster(), volcano_job(*pods))
    places = [f"spec.tasks[{at}].template" for at in range(3)]

    assert [(each.result, each.to_json()["template"]) for each in results] == [
        *zip(("ok", "never", "bad"), places, strict=True)
    ]
    assert [each.line(2).partition("): ")[0].rpartition(", ")[2] for each in results] == places
    [mistake] = results[2].manifest.located_mistakes()
    assert mistake.where.endswith(f"(Job train): {places[2]}.metadata.annotations[numalign.io/policy]")


def test_all_mistakes_of_a_pod_are_listed(cli: Cli) -> None:
    [answer] = checked(cli, small_cluster(), manifest("a", "8 cores", policy="tight"))

    assert [each.where for each in answer.manifest.mistakes] == [
        "metadata.annotations[numalign.io/policy]",
        "spec.containers[0].resources.limits.cpu",
    ]
    assert (answer.refusal or "").endswith(" (and 1 more)")
