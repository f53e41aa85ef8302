"""The wheel and the source distribution, installed alone, and the lists of what they consist of."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.tools.release.conftest import Installed, run
from tools.release import files
from tools.release.__main__ import ROOT
from tools.release.files import Order, sha256

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
VERSION = PROJECT["project"]["version"]
COMPLETION = "kubectl_complete-numa"
PROGRAMS = sorted({*PROJECT["project"]["scripts"]} - {COMPLETION})
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {numalign.io/policy: single-numa-node}}
spec:
  containers: [{name: main, image: web, resources: {limits: {cpu: "2", memory: 1Gi}}}]
"""

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


def test_wheel_has_all_files_below_one_package(order: Order) -> None:
    tracked = run("git", "ls-files", "--", *PACKAGES, folder=ROOT).splitlines()
    expected = {f"numalign/{name.removeprefix('numalign/')}" for name in tracked}
    with zipfile.ZipFile(order.wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name for name in expected ^ shipped if not name.endswith(".gitignore")} == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_print_version_and_usage(installed: Installed, program: str) -> None:
    version = installed.run(program, "--version")
    assert re.search(rf"^{program},?( version)? {re.escape(VERSION)}$", version)
    assert installed.run(program, "--help").lower().startswith(f"usage: {program} ")


def test_commands_of_kubectl_numa_run_on_bundled_data(installed: Installed) -> None:
    run(installed.program("python"), "-m", "pip", "check", environ={})
    commands = installed.run("kubectl-numa", "--help").partition("Commands:")[2]
    listed = re.findall(r"^  (\w+)  ", commands, re.MULTILINE)
    assert len(listed) > 10
    for command in listed:
        assert installed.run("kubectl-numa", command, "--help").startswith(f"Usage: kubectl-numa {command}")
    assert installed.run(COMPLETION, "exp").startswith("explain\t")
    [cluster] = installed.folder.glob("lib/python*/site-packages/numalign/examples/data/cluster.yaml")
    explained = installed.run("kubectl-numa", "explain", "-f", "-", "--snapshot", cluster, stdin=POD)
    assert explained.startswith("default/web requests single-numa-node alignment\n")


@pytest.mark.parametrize("runner", ["uv tool run --from", "pipx run --spec"])
def test_demo_runs_from_the_wheel(runner: str, order: Order, tmp_path: Path) -> None:
    """With the versions of the lock, so that a new release of a library changes nothing."""
    pins = re.findall(r"^[a-z].*(?= \\$)", (order.locks / "programs.txt").read_text(), re.MULTILINE)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(pins))
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--requirement", order.locks / "installers.txt")
    limits = dict.fromkeys(("PIP_CONSTRAINT", "UV_CONSTRAINT"), str(constraints))
    environ = os.environ | {"HOME": str(tmp_path), "PYTHONPATH": ""} | limits
    words = ("-m", *runner.split(), str(order.wheel), "kubectl-numa", "demo")
    assert "denied" in run(python, *words, folder=tmp_path, environ=environ)


def test_agent_starts_its_daemon(installed: Installed, tmp_path: Path) -> None:
    """The first stage replaces itself by a module that it names."""
    report = f"--output={tmp_path / 'report'}"
    with subprocess.Popen(  # noqa: S603  a program of the release
        [installed.program("numalign-agent"), "--node-name=a", report, "--metrics-port=0"],
        stderr=subprocess.PIPE,
        text=True,
        env={},
    ) as agent:
        assert agent.stderr
        try:
            assert '"event":"server.listening"' in agent.stderr.readline()
        finally:
            agent.terminate()


def test_wheel_of_other_bytes_is_not_installed(order: Order, tmp_path: Path) -> None:
    (tmp_path / order.wheel.name).write_bytes(order.wheel.read_bytes() + b"\0")
    (tmp_path / "lock.txt").write_text(order.pinned_wheel())
    # Into a folder of its own: pip would take a file in the download folder for one of its own.
    download = (sys.executable, "-m", "pip", "download", "--no-deps", "--dest", tmp_path / "downloaded")
    with pytest.raises(AssertionError, match="DO NOT MATCH THE HASHES"):
        run(*download, "--require-hashes", "-r", "lock.txt", folder=tmp_path)


def test_source_distribution_builds_the_same_wheel(order: Order, tmp_path: Path) -> None:
    run("tar", "-xzf", order.into / f"numalign-{VERSION}.tar.gz", "-C", tmp_path)
    rebuilt = files.build("wheel", tmp_path / f"numalign-{VERSION}", tmp_path / "wheel")
    assert sha256(rebuilt) == sha256(order.wheel)


@pytest.mark.skipif(sys.platform != "linux", reason="the images are for Linux")
def test_sbom_lists_the_packages_of_the_lock(order: Order) -> None:
    # Only the environment of developers has it.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    text = files.make_bill(order, "numalign-agent").read_text()
    bill = json.loads(text)
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(json.dumps(bill | {"licence": "Apache-2.0"})) is not None

    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == ("numalign", VERSION)
    lock = re.findall(r"^([a-z].*?) \\$", (order.locks / "agent.txt").read_text(), re.MULTILINE)
    pins = [pin for pin in map(Requirement, lock) if not pin.marker or pin.marker.evaluate()]
    assert {f"{canonicalize_name(each['name'])}=={each['version']}" for each in bill["components"]} == {
        f"{pin.name}{pin.specifier}" for pin in pins
    }
    assert [each for each in bill["components"] if not each["purl"].startswith("pkg:pypi/")] == []
    assert re.findall(r'"(?:/|file:)[^"]*"', text) == []
    assert {"timestamp", "serialNumber"}.isdisjoint({*bill, *bill["metadata"]})
