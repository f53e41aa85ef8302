"""Selection of pods by namespace and labels, of nodes by name and labels, and TYPE/NAME."""

import click
import pytest

from kubectl_numa import typed_names
from kubectl_numa.typed_names import TypedName
from numalign.kube.resource_types import NODE, POD
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import BORN, ITEMS, labelled, running, waiting
from tests.worlds.notation import table
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


READ = [
    # what it shows             the text                             its name
    ("a name alone",            "web",                               "pod/web"),
    ("a pod",                   "pod/web",                           "pod/web"),
    ("a short type",            "deploy/web",                        "deployment.apps/web"),
    ("a plural",                "Deployments/web",                   "deployment.apps/web"),
    ("with its group",          "deployments.apps/web",              "deployment.apps/web"),
    ("the built-in job",        "job/train",                         "job.batch/train"),
    ("another job",             "vcjob/train",                       "job.batch.volcano.sh/train"),
    ("an unknown type",         "trainers.example.com/train",        "trainers.example.com/train"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), table(READ))
def test_a_typed_name_is_read(text: str, name: str) -> None:
    assert str(TypedName.read(text, default=POD)) == name


def test_other_texts_are_errors() -> None:
    for text in ("", "/web", "pod/", "a/b/c", "/"):
        with pytest.raises(click.UsageError, match="is not a name: use NAME or TYPE/NAME, such as pod/web"):
            TypedName.read(text, default=POD)


def test_names_have_one_type() -> None:
    assert typed_names.names(("a", "node/b", "no/c"), NODE) == ("a", "b", "c")
