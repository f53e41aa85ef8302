"""check: one line for each pod, and an exit code for pipelines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.notation import table

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]
Run = Callable[..., Result]


def test_a_folder_with_all_results(
    run: Run, cluster_file: Path, manifest: Make, write: Write, tmp_path: Path
) -> None:
    first = write("dir/a.yaml", manifest("a", "8"), manifest("b", "8", namespace="strict"))
    second = write("dir/deep/b.yaml", manifest("c", "8", policy="tight"))
    result = run("check", "-f", tmp_path / "dir", "--snapshot", cluster_file)
    assert result.exit_code == 2
    policies = "none, best-effort, restricted, single-numa-node"
    denied = 'namespace "strict" enforces restricted: the pod asks for nothing'
    bad = f'metadata.annotations[numalign.io/policy]: "tight" is none of the known words; one of {policies}'
    assert result.stdout.splitlines() == [
        f"ok     default/a ({first}, document 1): no intent, 2 of 2 nodes could run it",
        f"denied strict/b ({first}, document 2): {denied}",
        f"bad    default/c ({second}, document 1): {bad}",
        "3 pods: 1 bad, 1 denied, 1 ok",
    ]
    assert result.stderr.startswith(
        f"{second}, document 1 (Pod c): metadata.annotations[numalign.io/policy]: "
    )


@pytest.mark.parametrize(
    ("cpus", "code"),
    table(
        [
            ("all could run", ["8", "32"], 0),
            ("one never could", ["8", "33"], 1),
            ("one cannot be read", ["33", "x"], 2),
            ("no pods at all", [], 0),
        ]
    ),
)
def test_the_exit_code(  # noqa: PLR0913, PLR0917 - the fixtures and the table
    run: Run, cluster_file: Path, manifest: Make, write: Write, cpus: list[str], code: int
) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    path = write("p.yaml", service, *(manifest("a", cpu) for cpu in cpus))
    assert run("check", "-f", path, "--snapshot", cluster_file).exit_code == code


def test_nothing_is_left_out_in_silence(run: Run, cluster_file: Path, manifest: Make, write: Write) -> None:
    thing = {
        "apiVersion": "x.io/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"server": manifest("a", "33", policy="single-numa-node")},
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    path = write("all.yaml", thing, service, manifest("b", "8"))
    result = run("check", "-f", path, "--snapshot", cluster_file)
    # A guess decides nothing.
    assert result.exit_code == 0
    first, *others = result.stdout.splitlines()
    assert first.startswith(f"never  default/a ({path}, document 1, spec.server, a guess): ")
    assert others[1:] == ["2 pods: 1 never, 1 ok"]
    assert result.stderr.splitlines() == [
        f"{path}, document 1: Thing.x.io is not a kind numalign knows: read a pod template at spec.server",
        "1 object without pods: 1 Service",
    ]


def test_json_has_one_entry_for_each_pod(run: Run, cluster_file: Path, manifest: Make, write: Write) -> None:
    path = write("p.yaml", manifest("a", "8"), manifest("b", "33"))
    found = json.loads(run("check", "-f", path, "--snapshot", cluster_file, "-o", "json").stdout)
    assert [(each["pod"], each["document"], each["result"]) for each in found] == [
        ("a", 1, "ok"),
        ("b", 2, "never"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    table(
        [
            ("no file named", ["--snapshot", "CLUSTER"], "Missing option '-f'"),
            (
                "no such file",
                ["-f", "none", "--snapshot", "CLUSTER"],
                "none: there is no such file or folder",
            ),
            (
                "a pod as a snapshot",
                ["-f", "POD", "--snapshot", "POD"],
                "is no snapshot of a cluster: it holds 1 Pod",
            ),
            ("a snapshot that is none", ["-f", "POD", "--snapshot", "TEXT"], "text.yaml"),
            ("no cluster", ["-f", "POD"], "there is no kubeconfig at /nowhere/config"),
            ("one standard input for two", ["-f", "-", "--snapshot", "-"], "cannot both be standard input"),
        ]
    ),
)
def test_bad_input_is_told_in_a_sentence(  # noqa: PLR0913, PLR0917 - the fixtures and the table
    run: Run, cluster_file: Path, manifest: Make, write: Write, arguments: list[str], said: str
) -> None:
    files = {
        "CLUSTER": cluster_file,
        "POD": write("p.yaml", manifest("a", "1")),
        "TEXT": write("text.yaml", "just a sentence"),
    }
    result = run("check", *(files.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
