"""Could it ever run: four results, one line and one code for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa import checking, manifests
from kubectl_numa.checking import Checked
from kubectl_numa.questions import Cluster
from numalign.fleet import Fleet
from numalign.rules.intent import Match
from tests.naming import named
from tests.notation import node, table

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def checked(cluster: Cluster, path: Path, *, match: Match = Match.SATISFIES) -> list[Checked]:
    return [checking.check(each, cluster, match=match) for each in manifests.read(str(path))]


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
                "1 has at most 32 cpu in one zone",
            ),
            (
                "never, though nobody asks",
                "33",
                {},
                "never",
                1,
                'has at most 32 cpu in one zone (kubelet policy "single-numa-node")',
            ),
            ("its namespace asks more", "8", {"namespace": "strict"}, "denied", 1, "enforces restricted"),
            ("a misspelt policy", "8", {"policy": "sngle"}, "bad", 2, '"sngle" is none of the known words'),
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
    cluster: Cluster,
    manifest: Make,
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
    ((_, line),) = checking.lines(results, cluster)
    assert words in line
    assert "\n" not in line
    assert line.startswith(f"{options.get('namespace', 'default')}/a (")


def test_the_worst_result_gives_the_code(cluster: Cluster, manifest: Make, write: Write) -> None:
    path = write("all.yaml", manifest("a", "33"), manifest("b", "-1"), manifest("c", "1"))
    assert checking.exit_code(checked(cluster, path)) == 2
    assert checking.exit_code([]) == 0


def test_nodes_that_do_not_answer_are_not_counted_with_those_that_can(manifest: Make, write: Write) -> None:
    vast = node(*["cpu=8 mem=64Gi"] * 18, policy="restricted")
    cluster = Cluster(Fleet(named([vast, node("cpu=8 mem=64Gi", policy="restricted")])))
    path = write("p.yaml", manifest("a", "2", policy="restricted"))
    [found] = checked(cluster, path)
    [(_, words)] = checking.lines([found], cluster)

    assert (found.result, found.able, found.unanswered) == ("ok", 2, 1)
    assert words.endswith("restricted, 1 of 2 nodes could run it, 1 not answered")


def test_the_same_policy_may_be_asked_for(cluster: Cluster, manifest: Make, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8", policy="restricted"))
    assert [each.result for each in checked(cluster, path, match=Match.EQUAL)] == ["never"]


def test_the_json_of_a_pod_and_of_a_mistake(cluster: Cluster, manifest: Make, write: Write) -> None:
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
        "able": 2,
        "notAnswered": 0,
        "reason": None,
        "mistakes": [],
    }
    assert (bad["pod"], bad["result"], bad["able"]) == (None, "bad", 0)
    assert bad["mistakes"][0].startswith("spec.containers[0].resources.limits.cpu: ")


def test_every_template_of_a_workload_is_checked(cluster: Cluster, manifest: Make, write: Write) -> None:
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
    assert [line.partition(": ")[0].rpartition(", ")[2] for _, line in checking.lines(results, cluster)] == [
        "spec.tasks[0].template)",
        "spec.tasks[1].template)",
        "spec.tasks[2].template)",
    ]
    (mistake,) = results[2].manifest.told()
    assert mistake.where.endswith(
        "(Job train): spec.tasks[2].template.metadata.annotations[numalign.io/policy]"
    )


def _unnamed(pod: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pod["metadata"].items() if key != "name"}
