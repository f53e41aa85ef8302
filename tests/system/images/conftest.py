"""Builds the images once with buildah. Where they cannot be built and run, all tests are skipped."""

import os
import subprocess
import tempfile
import tomllib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worlds.child_output import CHILDREN
from tests.worlds.opt_in import IMAGES
from tools.clusters import builds, containers, debian
from tools.clusters.containers import ContainerCluster, cluster
from tools.clusters.processes import Children, run

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")

ROOT = Path(__file__).parents[3]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
RELEASE, NAMESPACE = "numalign", "numalign-system"
NAMES = ("numalign-webhook", "numalign-agent")
# What the steps of the Dockerfile call, in place of the official image of Python: no registry is needed.
BASE = ("ca-certificates", "python3-pip", "python3-venv", "python-is-python3")
SETTINGS = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Files with which pip reaches its index from this machine."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    IMAGES.claim(config, items, Path(__file__).parent, find)


async def find() -> None:
    """Have all programs built before the time of any test runs."""
    await containers.find()
    await builds.control_plane()
    await builds.helm()
    debian.archive("bookworm", BASE)


@dataclass(frozen=True, slots=True)
class Buildah:
    storage: Path

    def __call__(self, *arguments: str | Path) -> str:
        """Return the output of a command; the test fails with its errors if the command does."""
        storage = (f"--root={self.storage / 'root'}", f"--runroot={self.storage / 'run'}")
        words = ("buildah", *storage, *arguments)
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  constants
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def build(self, name: str, *flags: str) -> None:
        """Build a stage of the Dockerfile, with this machine's settings of pip."""
        dockerfile = ROOT / "deploy" / "Dockerfile"
        self(
            *("build", "--isolation=chroot", "--network=host", "--from=base", f"--tag={name}", *flags),
            *(f"--volume={file}:{file}:ro" for file in SETTINGS if Path(file).exists()),
            *(f"--file={dockerfile}", f"--ignorefile={dockerfile}.dockerignore", ROOT),
        )


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm, as a person runs it."""

    program: Path
    chart: Path
    kubeconfig: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which a person's shell runs helm and kubectl as this one does."""
        path = f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    async def __call__(self, *arguments: str) -> str:
        """What a command prints; the test fails with it if the command does."""
        words = (str(self.program), *arguments, f"--namespace={NAMESPACE}")
        code, output = await run(*words, **self.environment)
        assert code == 0, f"helm {' '.join(arguments)}\n{output}"
        return output


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both images of this tree, on a base that mmdebstrap made; their tag is `VERSION`."""
    built = tmp_path_factory.mktemp("images")
    with tempfile.TemporaryDirectory() as storage:
        write(Buildah(Path(storage)), built)
    return built


def write(buildah: Buildah, built: Path) -> None:
    base = buildah("from", "scratch")
    buildah("add", base, debian.archive("bookworm", BASE), "/")
    # Debian's pip installs nothing beside its packages; that of the official image does.
    buildah("run", "--isolation=chroot", base, "rm", "/usr/lib/python3.11/EXTERNALLY-MANAGED")
    # Without a command, it holds the namespaces of a pod.
    buildah("config", "--env=PATH=/usr/bin:/bin", '--entrypoint=["/usr/bin/sleep", "infinity"]', base)
    buildah("commit", base, "base")
    buildah.build("numalign-webhook")
    buildah.build("numalign-agent", "--target=agent")
    for name in ("base", *NAMES):
        buildah("push", name, f"docker-archive:{built / name}.tar:docker.io/library/{name}:{VERSION}")
    for name in NAMES:
        buildah("push", name, f"oci:{built / name}:{VERSION}")


@session_fixture()
async def children(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Children]:
    everyone = pytestconfig.stash[CHILDREN] = Children(logs=tmp_path_factory.mktemp("logs"))
    yield everyone
    await everyone.end()


@session_fixture()
async def containers_cluster(
    children: Children, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ContainerCluster]:
    """A cluster whose node has our images, and the base as the sandbox of pods."""
    kubelet, binaries = await containers.find(), await builds.control_plane()
    archives = [images / f"{name}.tar" for name in ("base", *NAMES)]
    running = cluster(
        children,
        tmp_path_factory.mktemp("cluster"),
        binaries=binaries,
        kubelet=kubelet,
        images=(archives, f"docker.io/library/base:{VERSION}"),
    )
    async with running as ready:
        yield ready


@session_fixture()
async def helm(containers_cluster: ContainerCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as the administrator of that cluster, with the packaged chart."""
    program = await builds.helm()
    folder = tmp_path_factory.mktemp("chart")
    packaged = await run(str(program), "package", str(ROOT / "deploy" / "chart"), f"--destination={folder}")
    assert packaged[0] == 0, packaged
    [chart] = folder.glob("*.tgz")
    return Helm(program, chart, containers_cluster.plane.kubeconfig("admin", folder))
