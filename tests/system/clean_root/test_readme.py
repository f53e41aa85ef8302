"""A new user with a clean Debian, Python and make follows README and the tutorial, and installs the wheel."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from tests.system.clean_root import roots
from tests.worlds.asked_for import CLEAN_ROOT
from tests.worlds.not_run import HEAD
from tests.worlds.programs import path_of
from tools.clusters.helm import build as helm

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

SUITES = ("bookworm", "trixie")
"""The releases of Debian, whose Pythons are 3.11.2 and 3.13."""

FOLLOW = """\
.venv/bin/python -m pytest tests/system/e2e/documents -k tutorial \\
    --override-ini addopts=--import-mode=importlib
"""

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module", params=SUITES)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> roots.Root:
    """A clean Debian, with a copy of what is committed as a download has it: no history, no environment."""
    folder = tmp_path_factory.mktemp("clean")
    made = roots.made(folder / "root", request.param)
    tar = folder / "numalign.tar"
    command = ("git", "archive", "--prefix=numalign/", f"--output={tar}", "HEAD")
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  words of ours
    made.unpack(tar)
    return made


@pytest.fixture
def typed(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest, root: roots.Root
) -> Callable[[str], str]:
    """Runs what the user types in the folder of the repository, and has time and size printed."""

    def run(command: str) -> str:
        began, environment = monotonic(), root.home / "numalign" / ".venv"
        printed = root.run(f"cd numalign && {command}", seconds=3500)
        took = monotonic() - began
        count = sum(name.endswith(".dist-info") for name in packages(environment))
        mib = sum(path.lstat().st_blocks for path in environment.rglob("*")) * 512 / 2**20
        size = f"{count} packages, {mib:.0f} MiB"
        CLEAN_ROOT.remark(pytestconfig, f"{request.node.name}: {took:.0f} s, {size}")
        return printed

    return run


def test_commands_with_which_readme_begins_run(typed: Callable[[str], str]) -> None:
    block = README.read_text().partition("```sh\n")[2].partition("```")[0]
    first, second = [line.partition("#")[0].strip() for line in block.splitlines()]
    assert (first, second) == ("make demo", "make test")

    assert "denied" in typed(first)
    table, *_, last = typed(second).rpartition(" did not run ")[2].strip().splitlines()[1:]
    assert table.split() == " ".join(HEAD).split()
    assert re.search(r"\b[1-9]\d* passed", last)
    assert not re.search(r"failed|error", last)


def test_tutorial_runs_from_top_to_end(root: roots.Root, typed: Callable[[str], str]) -> None:
    """With Go and kubectl, which it asks for. What this machine has not built yet is built on the way."""
    kubectl, go = Path(path_of("kubectl")), Path(path_of("go")).resolve().parents[1]
    root.install(kubectl, "usr/local/bin/kubectl")
    root.install(go, "usr/local/go")
    for built in (helm.WORKSHOP.cache().with_name(name) for name in ("controlplane", "oracle", "helm")):
        if built.exists():
            root.install(built, f"{roots.HOME}/.cache/numalign/{built.name}")
    output = typed(f"PATH=$PATH:/usr/local/bin:/usr/local/go/bin && {FOLLOW}")
    assert "1 passed" in output


def test_wheel_installs_into_its_own_environment(root: roots.Root, tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path)
    root.give(wheel)
    root.run(f"python3 -m venv bare && bare/bin/pip install --quiet ./{wheel.name}", seconds=600)

    assert root.run("bare/bin/kubectl-numa --version", seconds=60).split()[-1] == VERSION
    root.give(ROOT / "examples" / "data" / "cluster.yaml")
    listed = root.run("bare/bin/kubectl-numa nodes --snapshot cluster.yaml", seconds=60)
    assert "zone 0" in listed
    assert packages(root.home / "bare") >= {"numalign"}


def built_wheel(folder: Path) -> Path:
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  words of ours
    [wheel] = folder.glob("*.whl")
    return wheel


def packages(environment: Path) -> set[str]:
    [folder] = environment.glob("lib/python3*/site-packages")
    return {path.name for path in folder.iterdir()}
