"""replay: a conversation over a pipe, and lines that end it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import kubectl_numa
from kubectl_numa import events
from kubectl_numa.cli import program
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Json = dict[str, Any]
Run = Callable[..., Result]

NODE: Json = {
    "name": "n",
    "kubeletVersion": "v1.34.4",
    "kubeletConfig": {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
    },
    "machine": {
        "zones": [
            {
                "id": at,
                "socket": at,
                "cores": [[4 * at + core, 4 * at + core + 2] for core in range(2)],
                "memory": 8 * 2**30,
                "reservedMemory": 2**30,
            }
            for at in range(2)
        ],
        "reservedSystemCPUs": "0,2",
    },
}


def create(name: str, cpu: str) -> str:
    return json.dumps({"create": manifest(name, cpu)})


@pytest.fixture
def talk() -> Iterator[Callable[[str], Json]]:
    """A program of its own: says a line, and gives the line that it answers."""
    with subprocess.Popen(
        [sys.executable, "-m", "kubectl_numa", "replay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def say(*lines: str) -> Json:
            stdin.write("".join(f"{line}\n" for line in lines))
            stdin.flush()
            answer: Json = json.loads(stdout.readline())
            return answer

        yield say
        stdin.close()
        assert stdout.read() == ""
        assert process.wait(10) == 0


def test_every_pod_is_answered_before_anything_else_is_said(
    talk: Callable[..., Json],
) -> None:
    first = talk(json.dumps({"node": NODE}), create("a", "4"))
    assert first == {
        "pod": "a",
        "admitted": True,
        "containers": {
            "main": {
                "affinity": [1],
                "preferred": True,
                "cpus": "4-7",
                "amounts": {"1": {"cpu": 4000, "memory": 4 * 2**30}},
            }
        },
        "known": "machine",
    }
    second = talk(create("b", "4"))
    assert (second["admitted"], second["reason"]) == (False, "TopologyAffinityError")
    assert second["message"] == (
        'container "main": the node has at most 2 cpu free in one NUMA zone (Topology Manager policy'
        ' "single-numa-node")'
    )
    third = talk('{"delete": "a"}', create("c", "4"))
    assert third["containers"]["main"]["cpus"] == "4-7"
    really = {"main": {"cpus": "1,3", "amounts": {"0": {"cpu": 2000, "memory": 2**30}}}}
    observed = json.dumps({"observed": {"pod": "c", "admitted": True, "containers": really}})
    fourth = talk(observed, create("d", "4"))
    assert fourth["containers"]["main"]["cpus"] == "4-7"


def test_a_file_is_replayed(run: Run, write: Callable[..., Path]) -> None:
    lines = [json.dumps({"node": NODE}), "", create("a", "4"), create("b", "4")]
    result = run("replay", "-f", write("events.jsonl", "\n".join(lines)))
    assert result.exit_code == 0
    assert [json.loads(line)["admitted"] for line in result.stdout.splitlines()] == [True, False]


def test_the_example_of_the_help_is_a_conversation(run: Run) -> None:
    [path] = re.findall(r"replay -f (examples/\S+)$", run("replay", "--help").stdout, re.MULTILINE)
    lines = (Path(kubectl_numa.__path__[0]).parent / path).read_bytes().splitlines()
    told = [next(iter(json.loads(line))) for line in lines]
    assert told == ["node", "create", "observed", "create", "delete", "create"]
    result = run("replay", "-f", Path(kubectl_numa.__path__[0]).parent / path)
    answers = {answer["pod"]: answer for answer in map(json.loads, result.stdout.splitlines())}
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


def test_the_help_names_every_field(run: Run) -> None:
    told = run("replay", "--help").stdout
    read = (*events.NODE_FIELDS, "pod", "admitted", "containers", "shared", "free", *events.CONTAINER_FIELDS)
    said = ("reason", "message", "known", "doubts")
    assert [name for name in (*read, *said) if f'"{name}"' not in told] == []


def test_nothing_is_answered_where_nothing_is_asked(run: Run) -> None:
    result = run("replay", stdin=json.dumps({"node": NODE}))
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("lines", "said"),
    table(
        [
            ("not JSON", ["{"], "Error: line 1: is not JSON: "),
            (
                "an unknown key",
                [{"node": NODE}, {"update": {}}],
                "Error: line 2: update: is not a known field: expected one of ",
            ),
            (
                "no node yet",
                [{"delete": "a"}],
                "Error: line 1: there is no node yet: the first event must be a node\n",
            ),
            (
                "a pod that never came, after an empty line",
                [{"node": NODE}, "", {"delete": "a"}],
                'Error: line 3: delete: there is no pod "a" on the node\n',
            ),
            (
                "an observation of a pod that never came",
                [{"node": NODE}, {"observed": {"pod": "a", "admitted": False}}],
                'Error: line 2: observed.pod: there is no pod "a" on the node\n',
            ),
            (
                "a node on which no kubelet starts",
                [
                    {
                        "node": {
                            **NODE,
                            "kubeletConfig": {
                                **NODE["kubeletConfig"],
                                "cpuManagerPolicyOptions": {
                                    "align-by-socket": "true",
                                    "distribute-cpus-across-cores": "true",
                                    "full-pcpus-only": "true",
                                },
                            },
                        }
                    }
                ],
                (
                    "Error: line 1: node.kubeletConfig.cpuManagerPolicyOptions: the kubelet would not"
                    " start: full-pcpus-only and distribute-cpus-across-cores cannot be used at the same"
                    " time\nline 1: node.kubeletConfig.cpuManagerPolicyOptions.align-by-socket: the kubelet"
                    " would not start: it is not compatible with topologyManagerPolicy single-numa-node\n"
                ),
            ),
            (
                "a broken pod",
                [{"node": NODE}, {"create": {"metadata": {"name": "p"}, "spec": {"containers": []}}}],
                "Error: line 2: create.spec.containers: is empty: a pod has at least one container\n",
            ),
        ]
    ),
)
def test_a_line_that_cannot_be_read_ends_it(run: Run, lines: list[object], said: str) -> None:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    result = run("replay", stdin="\n".join(texts))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(said)


def test_what_was_answered_before_a_broken_line_stays(run: Run) -> None:
    result = run("replay", stdin=f"{json.dumps({'node': NODE})}\n{create('a', '4')}\nx\n")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["pod"] == "a"
    assert result.stderr.startswith("Error: line 3: is not JSON")


def test_a_closed_standard_input_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What Python makes of one that is closed.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        program.main(["replay"], prog_name="kubectl-numa")
    assert (ended.value.code, capsys.readouterr().err) == (2, "Error: standard input is closed\n")
