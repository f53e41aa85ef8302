"""A new user with a clean Debian, Python and make follows README and the tutorial, and installs the wheel."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from tests.worlds.not_run import HEAD
from tests.worlds.opt_in import CLEAN_ROOT
from tests.worlds.programs import path_of
from tools.clusters import builds, debian

# Essential packages and apt, fewer than any installed Debian has: wheels of NumPy want libstdc++, which comes
# with apt.
PACKAGES = ("ca-certificates", "make", "python3", "python3-venv")
USER = 1000
HOME = Path("home/user")

# Run by sh in namespaces of its own: the root, the number of its user, and the user's script.
_ENTERING = """
cd "$1" && mount --rbind /dev dev && mount -t proc none proc || exit
mount -t sysfs -o ro none sys && mount -t tmpfs -o mode=1777 none tmp || exit
exec chroot . setpriv --reuid="$2" --regid="$2" --clear-groups --no-new-privs sh -euc "cd && $3"
"""
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_OF_THE_NETWORK = [
    each for name in ("http_proxy", "https_proxy", "no_proxy") for each in (name, name.upper())
]
_TRUSTED_BY_PIP = "PIP_CERT"


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system, with a user whose home is below it."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / HOME

    def give(self, file: Path) -> None:
        self._own(Path(shutil.copy(file, self.home)))

    def run(self, script: str, *, seconds: float) -> str:
        """What a script of the user prints; fails with it if the script does."""
        command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTERING, "sh")
        ended = subprocess.run(  # noqa: S603  words of ours, and a script of the repository's documents
            (*command, str(self.folder), str(USER), script),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}"
        return ended.stdout

    def install(self, program: Path, path: str) -> None:
        """Copy a program of this machine, or a folder of them, to a path of the root; it is the user's."""
        to = self.folder / path
        for missing in reversed([folder for folder in to.parents if not folder.exists()]):
            missing.mkdir()
            self._own(missing)
        if program.is_dir():
            shutil.copytree(program, to, symlinks=True)
        else:
            shutil.copy(program, to)
        for each in (to, *to.rglob("*")):
            self._own(each)

    def unpack(self, tar: Path) -> None:
        with tarfile.open(tar) as content:
            content.extractall(self.home, filter="data")
        for path in self.home.rglob("*"):
            self._own(path)

    def _own(self, path: Path) -> None:
        os.chown(path, USER, USER, follow_symlinks=False)

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _OF_THE_NETWORK if name in os.environ}
        if _TRUSTED_BY_PIP in os.environ:
            kept[_TRUSTED_BY_PIP] = str(_AUTHORITIES)
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"/{HOME}", "LANG": "C.UTF-8", **kept}


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
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A clean Debian, with a copy of what is committed as a download has it: no history, no environment."""
    folder = tmp_path_factory.mktemp("clean")
    with tarfile.open(debian.archive(request.param, PACKAGES)) as content:
        content.extractall(folder / "root", filter="fully_trusted")  # noqa: S202  devices and owners belong to it
    made = Root(folder / "root")
    made.home.mkdir(parents=True)
    os.chown(made.home, USER, USER)
    # The network is this machine's, and so is whom it trusts.
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), _AUTHORITIES):
        shutil.copy(file, made.folder / file.relative_to("/"))
    tar = folder / "numalign.tar"
    command = ("git", "archive", "--prefix=numalign/", f"--output={tar}", "HEAD")
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  words of ours
    made.unpack(tar)
    return made


@pytest.fixture
def typed(pytestconfig: pytest.Config, request: pytest.FixtureRequest, root: Root) -> Callable[[str], str]:
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


def test_tutorial_runs_from_top_to_end(root: Root, typed: Callable[[str], str]) -> None:
    """With Go and kubectl, which it asks for. What this machine has not built yet is built on the way."""
    kubectl, go = Path(path_of("kubectl")), Path(path_of("go")).resolve().parents[1]
    root.install(kubectl, "usr/local/bin/kubectl")
    root.install(go, "usr/local/go")
    cache = builds.KUBE_SCHEDULER.cache().parent
    for built in (cache / name for name in ("controlplane", "oracle", "helm")):
        if built.exists():
            root.install(built, f"{HOME}/.cache/numalign/{built.name}")
    output = typed(f"PATH=$PATH:/usr/local/bin:/usr/local/go/bin && {FOLLOW}")
    assert "1 passed" in output


def test_wheel_installs_into_its_own_environment(root: Root, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path))
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603  words of ours
    [wheel] = tmp_path.glob("*.whl")
    root.give(wheel)
    root.run(f"python3 -m venv bare && bare/bin/pip install --quiet ./{wheel.name}", seconds=600)
    assert root.run("bare/bin/kubectl-numa --version", seconds=60).split()[-1] == VERSION
    root.give(ROOT / "examples" / "data" / "cluster.yaml")
    listed = root.run("bare/bin/kubectl-numa nodes --snapshot cluster.yaml", seconds=60)
    assert "zone 0" in listed
    assert packages(root.home / "bare") >= {"numalign"}


def packages(environment: Path) -> set[str]:
    [folder] = environment.glob("lib/python3*/site-packages")
    return {path.name for path in folder.iterdir()}
