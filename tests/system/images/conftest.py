"""Builds the images once for the tests here. Where they cannot be run, all tests are skipped, loudly."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.images.helm import Helm
from tests.worlds.asked_for import IMAGES
from tests.worlds.child_output import CHILDREN
from tools.clusters import imagespec
from tools.clusters.containers import build as containers
from tools.clusters.containers.clusters import ContainerCluster, cluster
from tools.clusters.containers.nodes import NodeImages
from tools.clusters.controlplane import build as controlplane
from tools.clusters.helm import build as helms
from tools.clusters.processes import Children, run
from tools.release.image import oci, python
from tools.release.image.__main__ import build_wheel, epoch
from tools.release.image.archives import Archive, write
from tools.release.image.recipes import ROOT

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")

_PAUSE = ["/usr/bin/python3.11", "-c", "import signal; signal.pause()"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    IMAGES.claim(config, items, Path(__file__).parent, find)


async def find() -> None:
    """Have all programs built before the time of any test runs."""
    await containers.find()
    await controlplane.find()
    await helms.find()
    await imagespec.find()


@dataclass(frozen=True, slots=True)
class Images:
    """What was built: the wheel, and the archives of the images."""

    wheel: Path
    webhook: Archive
    agent: Archive


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Images:
    """All images for all platforms, made from this tree."""
    folder = tmp_path_factory.mktemp("images")
    wheel = build_wheel(folder)
    webhook, agent = write(wheel, folder, epoch=epoch())
    for archive in (webhook, agent):
        for line in archive.lines:
            IMAGES.remark(pytestconfig, line.replace(f"{folder}/", ""))
    return Images(wheel, webhook, agent)


@pytest.fixture(scope="session")
def sandbox(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image that holds the namespaces of a pod and does nothing: the base, asleep."""
    own = python.own_platform()
    [base] = [image.layers[0] for image in images.agent.images if image.platform == own]
    image = oci.image(own, [base], {"Entrypoint": _PAUSE, "Labels": {}}, epoch=0)
    file = tmp_path_factory.mktemp("sandbox") / "pause.oci.tar"
    file.write_bytes(oci.layout("pause", "1", [image], epoch=0))
    return file


@session_fixture()
async def children(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Children]:
    everyone = pytestconfig.stash[CHILDREN] = Children(logs=tmp_path_factory.mktemp("logs"))
    yield everyone
    await everyone.end()


@session_fixture()
async def containers_cluster(
    children: Children, images: Images, sandbox: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ContainerCluster]:
    """A cluster whose node has our images and no others."""
    parts, [binaries] = await containers.find(), await controlplane.find()
    running = cluster(
        children,
        tmp_path_factory.mktemp("cluster"),
        binaries=binaries,
        parts=parts,
        images=NodeImages((images.webhook.file, images.agent.file, sandbox), "docker.io/library/pause:1"),
    )
    async with running as ready:
        yield ready


@session_fixture()
async def helm(containers_cluster: ContainerCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as the administrator of that cluster, with the packaged chart."""
    [program] = await helms.find()
    folder = tmp_path_factory.mktemp("chart")
    code, output = await run(
        str(program), "package", str(ROOT / "deploy" / "chart"), f"--destination={folder}"
    )
    assert code == 0, output
    [chart] = folder.glob("*.tgz")
    return Helm(program, chart, containers_cluster.plane.kubeconfig("admin", folder))
