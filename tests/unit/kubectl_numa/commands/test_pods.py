"""pods: what running pods hold, and whether they are aligned."""

from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import running, waiting
from tests.worlds.objects import Json

PODS = (running("good", 1), running("bad", 0, 1), running("reserved", 0, 1, key=PLACEMENT))


def annotated(pod: Json, key: str, value: str) -> Json:
    pod["metadata"]["annotations"][key] = value
    return pod


def test_text_judges_each_pod(cli: Cli) -> None:
    assert cli.text("pods", "--snapshot", cli.cluster(*PODS)).splitlines() == [
        "team/bad  on big  single-numa-node  misaligned",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        (
            '    container "main" holds cpu in zone 0 and zone 1 and memory in zone 0: 2 NUMA zones, and'
            " single-numa-node allows one"
        ),
        "team/good  on big  single-numa-node  aligned",
        "    zone 1: 8 cpu, 4Gi memory",
        "team/reserved  on big  single-numa-node  not judged",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        "    no agent reported what it holds",
        "3 pods: 1 misaligned, 1 aligned, 1 not judged",
    ]


def test_json_judges_each_pod(cli: Cli) -> None:
    bad, good, reserved = cli.json("pods", "--snapshot", cli.cluster(*PODS))

    assert [pod["aligned"] for pod in (bad, good, reserved)] == [False, True, None]
    assert [pod["known"] for pod in (bad, good, reserved)] == ["observed", "observed", "recorded"]
    assert (bad["judgement"], good["why"]) == ("misaligned", None)
    assert bad["why"].endswith("single-numa-node allows one")
    assert good["placement"] == [{"zones": ["node-1"], "amount": {"cpu": "8", "memory": "4Gi"}}]


def test_exclusive_pods_list_pods_in_their_zones(cli: Cli) -> None:
    alone = annotated(running("alone", 1), "numalign.io/exclusive", "zone")
    words = ("pods", "--snapshot", cli.cluster(alone, running("near", 1), running("far", 0)))

    assert (
        "team/alone  on big  single-numa-node, exclusive  aligned\n    zone 1: 8 cpu, 4Gi memory\n    shares"
        " its zones with team/near\n"
    ) in cli.text(*words)
    assert [(pod["name"], pod["exclusive"], pod["sharesWith"]) for pod in cli.json(*words)] == [
        ("alone", "zone", ["team/near"]),
        ("far", None, []),
        ("near", None, []),
    ]


def test_pods_without_a_policy_or_node_are_not_listed(cli: Cli) -> None:
    ended = running("ended", 0, 1) | {"status": {"phase": "Succeeded", "startTime": "2026-11-20T00:00:00Z"}}
    words = ("pods", "--snapshot", cli.cluster(ended, waiting("waiting"), running("plain", 0, policy="none")))

    assert cli.text(*words) == "no running pod requests alignment\n"
    assert cli.text(*words, "--all", "-o", "name") == "pod/plain\n"
    assert "team/plain  on big  none  not requested" in cli.text(*words, "--all")


def test_a_broken_annotation_leaves_the_other_pods(cli: Cli) -> None:
    broken = annotated(running("broken", 0, 1), PLACEMENT_OBSERVED, "{")
    result = cli("pods", "--snapshot", cli.cluster(broken, running("good", 1)))

    assert (result.exit_code, "skipped: " in result.stderr) == (0, True)
    assert "2 pods: 1 aligned, 1 not judged" in result.stdout
