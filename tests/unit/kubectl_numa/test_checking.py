"""Could it ever run: four results, one line and one code for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa import checking, manifests
from kubectl_numa.checking import Checked
from kubectl_numa.manifests import Namespace
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.kube.files import snapshot
from numalign.kube.files.policy import parse
from numalign.model.intent import Match, NamespaceRules
from tests.unit.kubectl_numa.objects import manifest, view
from tests.worlds.naming import named
from tests.worlds.notation import node, table

EQUAL = WebhookOptions(match=Match.EQUAL, unknown_may_fit=False)

Write = Callable[..., Path]


def checked(cluster: ClusterView, path: Path) -> list[Checked]:
    return [checking.check(each, cluster) for each in manifests.read(str(path))]


def lines(results: list[Checked], cluster: ClusterView) -> list[str]:
    return [checked.line(len(cluster.snapshot.nodes)) for checked in results]


@pytest.mark.parametrize(
    ("cpu", "options", "result", "code", "words"),
    table(
        [
            ("fits", "8", {"policy": "restricted"}, "ok", 0, "restricted, 2 of 2 nodes could run it"),
            ("fits when empty", "32", {}, "ok", 0, "no intent, 1 of 2 nodes could run it"),
            (
                "never",
                "33",
                {"policy": "single-numa-node"},
                "never",
                1,
                "1 has at most 32 cpu in one NUMA zone",
            ),
            ("too large, but nobody asks", "33", {}, "ok", 0, "no intent, 0 of 2 nodes could run it"),
            ("its namespace asks more", "8", {"namespace": "strict"}, "denied", 1, "of at least restricted"),
            ("a misspelt policy", "8", {"policy": "sngle"}, "bad", 2, '"sngle" is not a known value'),
            (
                "one that nobody looks at",
                "8",
                {"policy": "x", "namespace": "closed"},
                "ok",
                0,
                "no intent, 2 of 2",
            ),
        ]
    ),
)
def test_one_pod(  # noqa: PLR0913, PLR0917 - the columns of the table
    cluster: ClusterView,
    write: Write,
    cpu: str,
    options: dict[str, str],
    result: str,
    code: int,
    words: str,
) -> None:
    results = checked(cluster, write("p.yaml", manifest("a", cpu, **options)))
    assert [each.result for each in results] == [result]
    assert checking.exit_code(results) == code
    (line,) = lines(results, cluster)
    assert words in line
    assert "\n" not in line
    assert line.startswith(f"{options.get('namespace', 'default')}/a (")


def test_the_worst_result_gives_the_code(cluster: ClusterView, write: Write) -> None:
    large = manifest("a", "33", policy="restricted")
    path = write("all.yaml", large, manifest("b", "-1"), manifest("c", "1"))
    assert checking.exit_code(checked(cluster, path)) == 2
    assert checking.exit_code([]) == 0


def test_nodes_that_do_not_answer_are_not_counted_with_those_that_can(write: Write) -> None:
    vast = node(*["cpu=8 mem=64Gi"] * 18, policy="restricted")
    cluster = view(*named([vast, node("cpu=8 mem=64Gi", policy="restricted")]))
    path = write("p.yaml", manifest("a", "2", policy="restricted"))
    [found] = checked(cluster, path)
    [words] = lines([found], cluster)

    assert (found.result, found.able, found.unanswered) == ("ok", 2, 1)
    assert words.endswith("restricted, 1 of 2 nodes could run it, 1 not evaluated")


def test_a_pod_that_no_node_was_evaluated_for_is_unknown(write: Write) -> None:
    cluster = view(node(*["cpu=8 mem=64Gi"] * 18, policy="restricted"))
    [found] = checked(cluster, write("p.yaml", manifest("a", "2", policy="restricted")))

    assert (found.result, found.unanswered) == ("unknown", 1)


def test_the_same_policy_may_be_asked_for(cluster_file: Path, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8", policy="restricted"))
    equal = ClusterView(snapshot.load(cluster_file), options=EQUAL)
    assert [each.result for each in checked(equal, path)] == ["never"]


def test_the_json_of_a_pod_and_of_a_mistake(cluster: ClusterView, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"), manifest("b", "8 cores"))
    good, bad = [each.to_json() for each in checked(cluster, path)]
    assert good == {
        "file": str(path),
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
    assert bad["mistakes"][0].startswith("spec.containers[0].resources.limits.cpu: ")
    assert bad["refusal"].startswith("spec.containers[0].resources.limits.cpu: ")


def test_who_is_to_place_a_pod_stands_behind_the_answer(write: Write) -> None:
    path = write("p.yaml", manifest("a", "8", policy="restricted"), manifest("b", "8"))
    routed = view(node("cpu=8 mem=8Gi", policy="restricted"), rules=NamespaceRules(scheduler="second"))
    asks, silent = checked(routed, path)

    assert asks.line(1).endswith(
        "restricted, 1 of 1 nodes could run it, assigned to the scheduler second by its namespace"
    )
    assert silent.line(1).endswith("no intent, 1 of 1 nodes could run it")
    assert (asks.to_json()["scheduler"], asks.to_json()["gate"]) == ("second", None)


@pytest.mark.parametrize(("policy", "stated"), [(None, "no intent"), ("restricted", "restricted")])
def test_where_no_node_has_a_label_nothing_is_known(write: Write, policy: str | None, stated: str) -> None:
    pod = manifest("a", "8", policy=policy)
    pod["spec"].update(nodeSelector={"gpu": "a100"}, tolerations=[{"operator": "Exists"}])
    narrow = view(node("cpu=8 mem=8Gi", policy="restricted"))
    [found] = checked(narrow, write("p.yaml", pod))

    assert (found.result, checking.exit_code([found])) == ("unknown", 0)
    assert found.line(1).endswith(f": {stated}, 0 of 1 nodes could run it: no node has gpu=a100")
    assert found.to_json()["reason"] == "no node has gpu=a100"


def test_that_no_node_could_run_a_pod_is_a_warning_if_nobody_asks(write: Write) -> None:
    small = view(node("cpu=8 mem=8Gi", policy="restricted"))
    [found, fits] = checked(small, write("p.yaml", manifest("a", "33"), manifest("b", "8")))

    assert found.result == "ok"
    assert found.warnings == ("no node can run the pod (0 of 1 node): 1 has at most 8 cpu in total",)
    assert fits.warnings == ()


def deployment(**annotations: str) -> dict[str, Any]:
    template = {"spec": manifest("x", "2")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"template": template},
    }


def test_an_annotation_in_the_wrong_place_is_a_warning_of_its_workload(
    cluster: ClusterView, write: Write
) -> None:
    path = write("web.yaml", deployment(**{"numalign.io/policy": "restricted"}))
    [found] = checked(cluster, path)

    assert found.warnings[0].startswith("metadata.annotations[numalign.io/policy] has no effect")
    assert found.to_json()["warnings"] == list(found.warnings)
    assert checking.summary([found]) == "1 pod: 1 ok, 1 with warnings"


def test_a_kind_that_is_not_understood_is_listed_with_a_warning(cluster: ClusterView, write: Write) -> None:
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}}
    path = write("job.yaml", job)
    [found] = checked(cluster, path)

    assert (found.result, checking.exit_code([found])) == ("unknown", 0)
    assert found.line(2) == f"default/train ({path}, document 1): its pods were not checked"
    assert checking.summary([found]) == "1 pod: 1 unknown, 1 with warnings"


def runtime(kind: str) -> dict[str, Any]:
    template = {"spec": manifest("x", "8")["spec"]}
    job = {"name": "node", "template": {"spec": {"template": template}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }


@pytest.mark.parametrize(
    ("kind", "result", "name", "namespace"),
    [
        ("TrainingRuntime", "denied", "strict/torch", "strict"),
        ("ClusterTrainingRuntime", "ok", "torch", None),
    ],
)
def test_no_rules_of_a_namespace_apply_to_an_object_without_one(  # noqa: PLR0913, PLR0917 - the columns
    cluster: ClusterView, write: Write, kind: str, result: str, name: str, namespace: str | None
) -> None:
    path = write("runtime.yaml", runtime(kind))
    [read] = manifests.read(str(path), namespace=Namespace("strict", asked=True))
    found = checking.check(read, cluster)

    assert (found.result, found.to_json()["namespace"]) == (result, namespace)
    assert found.line(2).startswith(f"{name} ({path}, document 1, ")


def test_a_bad_pod_has_its_name_and_a_bad_file_only_its_mistake(cluster: ClusterView, write: Write) -> None:
    pod, text = write("p.yaml", manifest("a", "8 cores")), write("t.yaml", "a: [")

    assert lines(checked(cluster, pod), cluster)[0].startswith(f"default/a ({pod}, document 1): spec.")
    assert lines(checked(cluster, text), cluster)[0].startswith(f"{text}: is not YAML")


NO_ROOM = "no node can provide single-numa-node alignment now; the pod will stay pending"


def test_what_the_webhook_warns_of_is_told_and_no_failure(write: Write) -> None:
    busy = view(*named([node("cpu=8/8/2 mem=64Gi", policy="single-numa-node")]))
    path = write("p.yaml", manifest("a", "4", policy="single-numa-node"), manifest("b", "4"))
    results = checked(busy, path)

    assert [(each.result, each.to_json()["warnings"]) for each in results] == [
        ("ok", [NO_ROOM]),
        ("ok", []),
    ]
    assert checking.exit_code(results) == 0
    assert checking.summary(results) == "2 pods: 2 ok, 1 with warnings"


@pytest.mark.parametrize(
    ("user", "result"),
    table([("the policy exempts", "system:ci", "ok"), ("it does not", "jane", "never")]),
)
def test_somebody_whom(cluster_file: Path, write: Write, user: str, result: str) -> None:
    policy = parse(b"exemptions: {users: ['system:*']}")
    told = ClusterView(snapshot.load(cluster_file), policy, WebhookOptions(created_by=user))
    path = write("p.yaml", manifest("a", "33", policy="single-numa-node"))

    assert [each.result for each in checked(told, path)] == [result]


def test_a_default_of_the_policy_is_heard(cluster_file: Path, write: Write) -> None:
    policy = parse(b"defaults: [{default: single-numa-node}]")
    told = ClusterView(snapshot.load(cluster_file), policy)

    [found] = checked(told, write("p.yaml", manifest("a", "33")))
    assert found.result == "never"
    [found] = checked(told, write("p.yaml", manifest("a", "33", namespace="closed")))
    assert found.result == "ok"


def test_nobody_is_refused_for_shapes_where_the_policy_only_warns(cluster_file: Path, write: Write) -> None:
    told = ClusterView(snapshot.load(cluster_file), parse(b"never: warn"))
    [found] = checked(told, write("p.yaml", manifest("a", "33", policy="single-numa-node")))

    assert (found.result, found.refusal) == ("ok", None)
    assert found.warnings[0].startswith('no node can align container "main" as single-numa-node')


def test_every_template_of_a_workload_is_checked(cluster: ClusterView, write: Write) -> None:
    templates = [
        manifest("t", "8"),
        manifest("t", "33", policy="single-numa-node"),
        manifest("t", "8", policy="x"),
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [{"template": {**each, "metadata": _unnamed(each)}} for each in templates]},
    }
    results = checked(cluster, write("job.yaml", job))
    assert [(each.result, each.to_json()["template"]) for each in results] == [
        ("ok", "spec.tasks[0].template"),
        ("never", "spec.tasks[1].template"),
        ("bad", "spec.tasks[2].template"),
    ]
    assert [line.partition(": ")[0].rpartition(", ")[2] for line in lines(results, cluster)] == [
        "spec.tasks[0].template)",
        "spec.tasks[1].template)",
        "spec.tasks[2].template)",
    ]
    (mistake,) = results[2].manifest.located_mistakes()
    assert mistake.where.endswith(
        "(Job train): spec.tasks[2].template.metadata.annotations[numalign.io/policy]"
    )


@pytest.mark.parametrize(
    ("policy", "result", "warned"),
    [("{}", "ok", True), ("partial: ignore", "ok", False), ("partial: deny", "denied", False)],
)
def test_a_policy_that_applies_to_a_part_of_a_pod(
    cluster_file: Path, write: Write, policy: str, result: str, *, warned: bool
) -> None:
    told = ClusterView(snapshot.load(cluster_file), parse(policy.encode()))

    [found] = checked(told, write("p.yaml", manifest("a", "3500m", policy="restricted")))

    assert (found.result, bool(found.warnings)) == (result, warned)
    if result == "denied":
        assert found.refusal
        assert found.refusal.startswith("restricted applies to memory only: cpu is not pinned, because")


def _unnamed(pod: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pod["metadata"].items() if key != "name"}


@pytest.mark.parametrize(
    ("served", "result", "told"),
    [
        (frozenset(), "never", ()),
        (
            {"nvidia.com/gpu"},
            "ok",
            (("DRA devices give the kubelet no topology hints: alignment of nvidia.com/gpu"),),
        ),
    ],
    ids=["by a device plugin", "by DRA"],
)
def test_nobody_is_refused_for_devices_that_dra_serves(
    write: Write, served: frozenset[str], result: str, told: tuple[str, ...]
) -> None:
    small = node("cpu=8 mem=64Gi gpu=1", "cpu=8 mem=64Gi gpu=1", policy="single-numa-node")
    pod = manifest("a", "4", policy="single-numa-node")
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8
    (found,) = checked(view(small, served=frozenset(served)), write("p.yaml", pod))
    assert found.result == result
    assert found.able == (result == "ok")
    assert [each.startswith(start) for each, start in zip(found.warnings, told, strict=True)] == [True] * len(
        told
    )


def test_all_mistakes_of_a_pod_are_told_as_the_webhook_tells_them(cluster: ClusterView, write: Write) -> None:
    [found] = checked(cluster, write("p.yaml", manifest("a", "8 cores", policy="tight")))

    assert [each.where for each in found.manifest.mistakes] == [
        "metadata.annotations[numalign.io/policy]",
        "spec.containers[0].resources.limits.cpu",
    ]
    assert found.refusal is not None
    assert found.refusal.endswith(" (and 1 more)")
