"""The wheel, installed where nothing else is: it takes one name, and its programs run."""

import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

import pytest

from tests.unit.tools.release.installed import Installed, run
from tools.release import toolbox

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = sorted(PROJECT["scripts"])
LOCKS = ROOT / "requirements"
RUNNERS = {"uvx": ("uv", "tool", "run", "--from"), "pipx": ("pipx", "run", "--spec")}
COMPLETION = "kubectl_complete-numa"
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {numalign.io/policy: single-numa-node}
spec:
  containers: [{name: main, image: web, resources: {limits: {cpu: "2", memory: 1Gi}}}]
"""

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


def test_one_name_of_site_packages_is_taken(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"numalign", f"numalign-{PROJECT['version']}.dist-info"}


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    tracked = run("git", "ls-files", "--", *packages["packages"], folder=ROOT).splitlines()
    expected = {name if name.startswith("numalign/") else f"numalign/{name}" for name in tracked}
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if not name.startswith("numalign-")}
    assert {name for name in expected if not name.endswith(".gitignore")} == {
        name for name in shipped if not name.endswith(".gitignore")
    }


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != COMPLETION])
def test_every_program_says_its_version_and_how_it_is_used(installed: Installed, program: str) -> None:
    assert re.search(
        rf"^{program},?( version)? {re.escape(PROJECT['version'])}$", installed.run(program, "--version")
    )
    assert installed.run(program, "--help").lower().startswith(f"usage: {program} ")


def test_kubectl_can_ask_what_completes_a_word(installed: Installed) -> None:
    assert installed.run(COMPLETION, "exp").startswith("explain\t")


def test_every_command_can_be_imported(installed: Installed) -> None:
    listed = re.findall(
        r"^  (\w+)  ", installed.run("kubectl-numa", "--help").partition("Commands:")[2], re.MULTILINE
    )
    assert len(listed) > 10
    for command in listed:
        assert installed.run("kubectl-numa", command, "--help").startswith(f"Usage: kubectl-numa {command}")


def test_a_pod_is_explained_with_the_bundled_cluster(installed: Installed) -> None:
    cluster = installed.site_packages() / "numalign" / "examples" / "data" / "cluster.yaml"
    explained = installed.run("kubectl-numa", "explain", "-f", "-", "--snapshot", cluster, stdin=POD)
    assert explained.startswith("default/web requests single-numa-node alignment\n")


def test_the_demo_comes_out_as_its_file_says(installed: Installed) -> None:
    """It starts the webhook as a process of its own, and ends with 1 where a pod comes out otherwise."""
    assert "denied" in installed.run("kubectl-numa", "demo")


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_the_demo_runs_without_an_installation(runner: Sequence[str], wheel: Path, tmp_path: Path) -> None:
    """With the versions of the lock, so that a new release of a library changes nothing."""
    pins = re.findall(r"^[a-z].*(?= \\$)", (LOCKS / "programs.txt").read_text(), re.MULTILINE)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(pins))
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "PIP_CONSTRAINT": str(constraints),
        "UV_CONSTRAINT": str(constraints),
    }
    python = toolbox.environment(LOCKS / "installers.txt")
    shown = run(python, "-m", *runner, wheel, "kubectl-numa", "demo", folder=tmp_path, environ=environ)
    assert "denied" in shown


def test_modules_run_by_their_installed_names(installed: Installed) -> None:
    for name in ("webhook", "scorer", "controller", "agent"):
        assert installed.run("python", "-m", f"numalign.{name}", "--version").startswith(f"numalign-{name} ")


def test_the_agent_becomes_its_daemon(installed: Installed, tmp_path: Path) -> None:
    """The first stage replaces itself by a module that it names."""
    agent = subprocess.Popen(  # noqa: S603  a program of the release
        [
            installed.program("numalign-agent"),
            "--node-name=a",
            f"--output={tmp_path / 'report'}",
            "--metrics-port=0",
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={},
    )
    assert agent.stderr
    try:
        assert '"event":"server.listening"' in agent.stderr.readline()
    finally:
        agent.terminate()
        agent.communicate()


def test_the_lock_has_every_dependency_and_nothing_conflicts(installed: Installed, wheel: Path) -> None:
    run(installed.program("python"), "-m", "pip", "check", environ={})
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(
            archive.read(f"numalign-{PROJECT['version']}.dist-info/METADATA").decode()
        )
    assert metadata["Version"] == PROJECT["version"]
    assert len(metadata.get_all("Requires-Dist", [])) >= len(PROJECT["dependencies"])
