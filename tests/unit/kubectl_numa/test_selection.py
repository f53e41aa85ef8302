"""Selection of pods by namespace and labels, and of nodes by name and labels."""

import pytest

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import BORN, ITEMS, labelled, running, waiting
from tests.worlds.objects import Json


def leaving(name: str) -> Json:
    pod = waiting(name)
    pod["metadata"]["deletionTimestamp"] = BORN
    return pod


POOLS = [labelled(item, pool=item["metadata"]["name"]) if item["kind"] == "Node" else item for item in ITEMS]
PODS = (
    running("bad", 0, 1),
    running("good", 1),
    running("far", 1, namespace="lab"),
    labelled(waiting("stuck"), app="train"),
    labelled(waiting("train", namespace="lab"), app="train"),
    leaving("leaving"),
)
COMMANDS = [
    # the command, its flags, and the names that it prints
    ("nodes", "hidden small", "small hidden"),
    ("nodes", "-l pool=big", "big"),
    ("nodes", "-l pool!=big", "small hidden"),
    ("nodes", "-l other", ""),
    ("doctor", "-l pool=big", "big"),
    ("doctor", "node/small", "small"),
    ("check --all", "-A", "far bad good"),
    ("check --all", "-n team", "bad good"),
    ("check --all", "-n team -l app!=bad", "good"),
    ("check --all", "-l app=far", "far"),
    ("check", "-A", "bad"),
    ("pods", "", "far bad good"),
    ("pods", "-n lab", "far"),
    ("pods", "--misaligned", "bad"),
    ("pods", "-n nowhere", ""),
    ("pods", "-A -l app!=good", "far bad"),
    ("pending", "-n lab", "train"),
    ("pending", "-n team -l app=train", "stuck"),
    ("pending", "-n team -l app=web", ""),
]


@pytest.mark.parametrize(("command", "flags", "names"), COMMANDS)
def test_commands_list_what_is_selected(cli: Cli, command: str, flags: str, names: str) -> None:
    words = (*command.split(), *flags.split(), "--snapshot", cli.cluster(*PODS, items=POOLS), "-o", "name")

    assert [line.partition("/")[2] for line in cli(*words).stdout.splitlines()] == names.split()


NOTHING = [
    ("nodes -l other -o name", "no node matches the label selector other\n"),
    ("check -A -l app=other", "no matching pod is running\n"),
    ("pods -n nowhere", "no running pod requests alignment\n"),
    ("pods --rejected", "no kubelet has rejected a pod that still exists\n"),
    ("pending -n nowhere", "no pod without a node is pending\n"),
]


@pytest.mark.parametrize(("command", "text"), NOTHING)
def test_an_empty_selection_is_reported(cli: Cli, command: str, text: str) -> None:
    result = cli(*command.split(), "--snapshot", cli.cluster(*PODS, items=POOLS))

    assert (result.exit_code, result.output) == (0, text)
