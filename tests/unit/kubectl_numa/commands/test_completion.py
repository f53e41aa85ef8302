"""What shells complete, and how kubectl asks for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_numa.cli import program
from kubectl_numa.commands.completion import answer
from tests.unit.kubectl_numa.conftest import Cli
from tests.worlds.notation import table

KUBECTL = """#!/bin/sh
case "$*" in
  "get nodes "*) printf 'node/dgx-1\\nnode/dgx-2\\nnode/cpu-1\\nnode/not;a;name\\n' ;;
  "get namespaces "*) printf 'namespace/team\\nnamespace/other\\n' ;;
  "get pods --output=name --namespace=team "*) printf 'pod/web\\n' ;;
  "get deploy "*) printf 'deployment.apps/web\\n' ;;
  "config get-contexts "*) printf 'prod\\ntest\\n' ;;
  *) exit 1 ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl of a small cluster, as the only one on the PATH."""
    path = tmp_path / "bin" / "kubectl"
    path.parent.mkdir()
    path.write_text(KUBECTL)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return path


COMPLETED = [
    # what it shows                       what is typed                         what is offered, what follows
    ("commands",                          ["no"],                               ["nodes", ":4"]),
    ("flags",                             ["nodes", "--snap"],                  ["--snapshot", ":4"]),
    ("forms",                             ["nodes", "-o", "ya"],                ["yaml", ":4"]),
    ("forms after a sign",                ["nodes", "--output=na"],             ["name", ":4"]),
    ("nodes",                             ["nodes", "dgx"],                     ["dgx-1", "dgx-2", ":4"]),
    ("nodes that are not typed yet",      ["nodes", "dgx-1", "dgx"],            ["dgx-2", ":4"]),
    ("a node for a flag",                 ["explain", "x", "--node", "c"],      ["cpu-1", ":4"]),
    ("namespaces",                        ["explain", "-n", "t"],               ["team", ":4"]),
    ("pods of the namespace, and types",  ["explain", "-n", "team", ""],
     ["web", "pod/", "deploy/", "sts/", "ds/", "job/", "cronjob/", "jobset/", ":4"]),
    ("workloads of a type",               ["explain", "deploy/w"],              ["deploy/web", ":4"]),
    ("names of no type",                  ["explain", "x/w"],                   [":4"]),
    ("contexts",                          ["nodes", "--context", "p"],          ["prod", ":4"]),
    ("files",                             ["check", "-f", "dep"],               [":0"]),
    ("shells",                            ["completion", ""],  ["bash", "zsh", "fish", ":4"]),
    ("no names beside a file",            ["nodes", "--snapshot=x", "dgx"],     [":4"]),
    ("a mistake before it",               ["nodes", "-l", "a=b=c", "dgx"],      ["dgx-1", "dgx-2", ":4"]),
]  # fmt: skip


@pytest.mark.usefixtures("kubectl")
@pytest.mark.parametrize(("words", "offered"), table(COMPLETED))
def test_words_are_completed(words: list[str], offered: list[str]) -> None:
    assert [line.partition("\t")[0] for line in answer(program, words)] == offered


@pytest.mark.usefixtures("kubectl")
def test_commands_are_offered_with_their_help() -> None:
    *commands, last = answer(program, [""])

    assert last == ":4"
    assert [line.partition("\t")[0] for line in commands] == sorted(program.commands)
    assert all(line.partition("\t")[2] for line in commands)


def test_a_slow_cluster_is_not_waited_for(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("numalign.kube.name_completion.SECONDS", 0.1)

    assert [*answer(program, ["nodes", ""])] == [":4"]


def test_without_kubectl_nothing_is_offered(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert [*answer(program, ["nodes", ""])] == [":4"]
    assert capfd.readouterr().err == ""


def test_flags_of_the_line_lead_to_its_cluster(kubectl: Path, tmp_path: Path) -> None:
    kubectl.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')

    flags = ["--context", "prod", "--as=jane", "--insecure-skip-tls-verify", "-s", "https://api"]
    assert [*answer(program, ["nodes", *flags, ""])] == [":4"]
    assert (tmp_path / "arguments").read_text() == (
        "get nodes --output=name --context=prod --server=https://api --as=jane --insecure-skip-tls-verify"
        " --request-timeout=1s\n"
    )


def test_each_shell_has_a_script(cli: Cli) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_KUBECTL_NUMA_COMPLETE={shell}_complete" in cli.text("completion", shell)


@pytest.mark.full
def test_bash_completes_by_its_script(kubectl: Path) -> None:
    """`complete` runs the function that the script defines, as a line that is typed would."""
    bash = shutil.which("bash")
    assert bash
    script = """
source <(kubectl-numa completion bash)
COMP_WORDS=(kubectl-numa nodes dgx) COMP_CWORD=2
_kubectl_numa_completion kubectl-numa dgx nodes
echo "${COMPREPLY[@]}"
"""
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603  the text is ours
        [bash, "-c", script], capture_output=True, text=True, timeout=20, check=True, env={"PATH": path}
    )
    assert (done.stdout, done.stderr) == ("dgx-1 dgx-2\n", "")
