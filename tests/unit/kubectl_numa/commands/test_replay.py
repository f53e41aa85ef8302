"""replay: a conversation over a pipe, and lines that end it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kubectl_numa
from kubectl_numa import events
from kubectl_numa.cli import program
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table
from tests.worlds.objects import GIB, Json, described_machine, machine_zone

NODE: Json = {
    "name": "n",
    "kubeletVersion": "v1.34.4",
    "kubeletConfig": {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
    },
    "machine": described_machine(machine_zone(0), machine_zone(1), reservedSystemCPUs="0,2"),
}


def create(name: str, cpu: str) -> str:
    return json.dumps({"create": manifest(name, cpu)})


STARTED = json.dumps({"node": NODE})


@pytest.fixture
def talk() -> Iterator[Callable[..., Json]]:
    """A process that gets lines, and the line that it answers."""
    with subprocess.Popen(
        [sys.executable, "-m", "kubectl_numa", "replay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def talk(*lines: str) -> Json:
            stdin.write("".join(f"{line}\n" for line in lines))
            stdin.flush()
            answer: Json = json.loads(stdout.readline())
            return answer

        yield talk
        stdin.close()
        assert stdout.read() == ""
        assert process.wait(10) == 0


def test_each_pod_is_answered_before_the_next_line(talk: Callable[..., Json]) -> None:
    main = {
        "affinity": [1],
        "preferred": True,
        "cpus": "4-7",
        "amounts": {"1": {"cpu": 4000, "memory": 4 * GIB}},
    }
    assert talk(STARTED, create("a", "4")) == {
        "pod": "a",
        "admitted": True,
        "containers": {"main": main},
        "known": "machine",
    }
    second = talk(create("b", "4"))
    assert (second["admitted"], second["reason"]) == (False, "TopologyAffinityError")
    assert second["message"] == (
        'container "main": the node has at most 2 cpu free in one NUMA zone (Topology Manager policy'
        ' "single-numa-node")'
    )
    assert talk('{"delete": "a"}', create("c", "4"))["containers"]["main"]["cpus"] == "4-7"
    containers = {"main": {"cpus": "1,3", "amounts": {"0": {"cpu": 2000, "memory": GIB}}}}
    observed = json.dumps({"observed": {"pod": "c", "admitted": True, "containers": containers}})
    assert talk(observed, create("d", "4"))["containers"]["main"]["cpus"] == "4-7"


def test_a_file_is_replayed(cli: Cli) -> None:
    lines = cli.text(
        "replay", "-f", cli.write("events.jsonl", f"{STARTED}\n\n{create('a', '4')}\n{create('b', '4')}")
    )

    assert [json.loads(line)["admitted"] for line in lines.splitlines()] == [True, False]
    assert cli("replay", stdin=STARTED).output == ""


def test_example_of_the_help_is_a_conversation(cli: Cli) -> None:
    [path] = re.findall(r"replay -f (examples/\S+)$", cli.text("replay", "--help", width=80), re.MULTILINE)
    example = Path(kubectl_numa.__path__[0]).parent / path
    kinds = [next(iter(json.loads(line))) for line in example.read_bytes().splitlines()]
    answers = {
        answer["pod"]: answer for answer in map(json.loads, cli.text("replay", "-f", example).splitlines())
    }

    assert kinds == ["node", "create", "observed", "create", "delete", "create"]
    assert {name: answer.get("reason") for name, answer in answers.items()} == {
        "inference": None,
        "odd": "SMTAlignmentError",
        "training": None,
    }
    assert answers["odd"]["message"] == (
        'container "main": the node allocates whole cores of 2 CPUs, and 3 cpu is no multiple of that'
    )
    assert [answers[name]["containers"]["main"]["cpus"] for name in ("inference", "training")] == [
        "1-2,9-10",
        "4-7,12-15",
    ]


def test_help_names_every_field(cli: Cli) -> None:
    text = cli.text("replay", "--help")
    read = (*events.NODE_FIELDS, "pod", "admitted", "containers", "shared", "free", *events.CONTAINER_FIELDS)
    written = ("reason", "message", "known", "doubts")

    assert [name for name in (*read, *written) if f'"{name}"' not in text] == []


WRONG: list[tuple[str, list[object], str]] = [
    ("not JSON", ["{"], "Error: line 1: is not JSON: "),
    ("an unknown key", [STARTED, {"update": {}}],
        "Error: line 2: update: is not a known field: expected one of "),
    ("no node yet", [{"delete": "a"}],
        "Error: line 1: there is no node yet: the first event must be a node\n"),
    ("an unknown pod, after an empty line", [STARTED, "", {"delete": "a"}],
        'Error: line 3: delete: there is no pod "a" on the node\n'),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "error"), table(WRONG))
def test_an_unreadable_line_ends_the_replay(cli: Cli, lines: list[object], error: str) -> None:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    result = cli("replay", stdin="\n".join(texts))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(error)


def test_answers_before_an_unreadable_line_are_printed(cli: Cli) -> None:
    result = cli("replay", stdin=f"{STARTED}\n{create('a', '4')}\nx\n")

    assert (result.exit_code, json.loads(result.stdout)["pod"]) == (2, "a")
    assert result.stderr.startswith("Error: line 3: is not JSON")


def test_closed_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What Python makes of one that is closed.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        program.main(["replay"], prog_name="kubectl-numa")
    assert (ended.value.code, capsys.readouterr().err) == (2, "Error: standard input is closed\n")
