"""replay: a conversation over a pipe, and lines that end it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kubectl_numa
from kubectl_numa import events
from kubectl_numa.cli import program
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table
from tests.worlds.objects import GIB, Json, described_machine, machine_zone

ALIGNS = {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicy": "static"}
NODE: Json = {
    "name": "n",
    "kubeletVersion": "v1.34.4",
    "kubeletConfig": {**ALIGNS, "memoryManagerPolicy": "Static"},
    "machine": described_machine(machine_zone(0), machine_zone(1), reservedSystemCPUs="0,2"),
}
STARTED = json.dumps({"node": NODE})


def create(name: str, cpu: str) -> str:
    return json.dumps({"create": manifest(name, cpu)})


def test_each_pod_is_answered_before_the_next_line() -> None:
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

        first, second = talk(STARTED, create("a", "4")), talk(create("b", "4"))
        assert (first["admitted"], first["containers"]["main"]["cpus"]) == (True, "4-7")
        assert (second["admitted"], second["reason"]) == (False, "TopologyAffinityError")
        assert talk('{"delete": "a"}', create("c", "4"))["containers"]["main"]["cpus"] == "4-7"
        containers = {"main": {"cpus": "1,3", "amounts": {"0": {"cpu": 2000, "memory": GIB}}}}
        observed = json.dumps({"observed": {"pod": "c", "admitted": True, "containers": containers}})
        assert talk(observed, create("d", "4"))["containers"]["main"]["cpus"] == "4-7"

        stdin.close()
        assert stdout.read() == ""
        assert process.wait(10) == 0


def test_a_file_is_replayed(cli: Cli) -> None:
    path = cli.write("events.jsonl", f"{STARTED}\n\n{create('a', '4')}\n{create('b', '4')}")
    answers = [json.loads(line) for line in cli.text("replay", "-f", path).splitlines()]

    assert [answer["admitted"] for answer in answers] == [True, False]
    assert cli("replay", stdin=STARTED).output == ""


def test_example_of_the_help_is_a_conversation(cli: Cli) -> None:
    [path] = re.findall(r"replay -f (examples/\S+)$", cli.text("replay", "--help", width=80), re.MULTILINE)
    example = Path(kubectl_numa.__path__[0]).parent / path
    kinds = [next(iter(json.loads(line))) for line in example.read_bytes().splitlines()]
    inference, odd, training = map(json.loads, cli.text("replay", "-f", example).splitlines())

    assert kinds == ["node", "create", "observed", "create", "delete", "create"]
    assert [inference["containers"]["main"]["cpus"], odd["reason"], odd["message"]] == [
        "1-2,9-10",
        "SMTAlignmentError",
        'container "main": the node allocates whole cores of 2 CPUs, and 3 cpu is no multiple of that',
    ]
    assert (training["admitted"], training["containers"]["main"]["cpus"]) == (True, "4-7,12-15")


def test_help_names_every_field(cli: Cli) -> None:
    text = cli.text("replay", "--help")
    read = (*events.NODE_FIELDS, "pod", "admitted", "containers", "shared", "free", *events.CONTAINER_FIELDS)
    written = ("reason", "message", "known", "doubts")

    assert [name for name in (*read, *written) if f'"{name}"' not in text] == []


WRONG: list[tuple[str, str, str, str]] = [
    # the lines, what is printed, and the beginning of the error
    ("not JSON after an answer", f"{STARTED}\n{create('a', '4')}\nx\n", "a", "Error: line 3: is not JSON"),
    ("no node yet", '{"delete": "a"}', "",
        "Error: line 1: there is no node yet: the first event must be a node\n"),
    ("an unknown pod, after an empty line", f'{STARTED}\n\n{{"delete": "a"}}', "",
        'Error: line 3: delete: there is no pod "a" on the node\n'),
    ("several mistakes", '{"node": {"name": "n", "labels": []}}', "",
        "Error: line 1: node.nrt: is missing\nline 1: node.labels: must be an object, not a list\n"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "pod", "error"), table(WRONG))
def test_an_unreadable_line_ends_the_replay(cli: Cli, lines: str, pod: str, error: str) -> None:
    result = cli("replay", stdin=lines)

    assert (result.exit_code, [json.loads(line)["pod"] for line in result.stdout.splitlines()]) == (2, [*pod])
    assert result.stderr.startswith(error)


def test_closed_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What Python makes of one that is closed.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        program.main(["replay"], prog_name="kubectl-numa")
    assert (ended.value.code, capsys.readouterr().err) == (2, "Error: standard input is closed\n")
