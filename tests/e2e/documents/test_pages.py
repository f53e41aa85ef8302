"""What pages tell readers to type at a cluster does what they say: real control planes, simulated nodes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from harness.gotools import UnavailableError
from harness.helm import build as helm
from harness.oracle.build import find as find_managers
from harness.processes import Children, until
from tests.docs.blocks import ROOT, Block, Needs, name, pages, read
from tests.docs.shell import follow, shell

# The first test may have to build the kubelet's managers and helm.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1800)]

NODES = ("--nodes", "4", "--shape", "two-by-four=3,small=1")
BESIDE = {Needs.CLUSTER: "scheduler", Needs.NUMALIGN: "numalign"}


def followed(page: Path, needs: Needs) -> list[Block]:
    """The blocks of a page that are run in one session: those with a need, and those without any."""
    blocks = [block for block in read(page.read_text()) if not block.reason]
    return [block for block in blocks if block.needs in {needs, Needs.NOTHING}]


SESSIONS = [
    pytest.param(page, needs, id=f"{name(page)} with {needs}")
    for page in pages()
    for needs in Needs
    if needs is not Needs.NOTHING and any(block.needs is needs for block in followed(page, needs))
]


@asynccontextmanager
async def cluster(children: Children, folder: Path, *, beside: str) -> AsyncIterator[Path]:
    """Nodes, a scheduler and perhaps numalign: the kubeconfig, while they run."""
    kubeconfig = folder / "kubeconfig"
    command = (sys.executable, "-m", "harness.sim", *NODES, "--with", beside)
    child = await children.start(*command, "--write-kubeconfig", str(kubeconfig), name="sim", cwd=ROOT)

    async def written() -> bool:
        return await asyncio.to_thread(kubeconfig.exists)

    try:
        await until(written, what="the cluster was there", child=child, seconds=120)
        yield kubeconfig
    finally:
        await child.stop()


@pytest.mark.parametrize(("page", "needs"), SESSIONS)
async def test_a_page_does_what_it_says(
    page: Path, needs: Needs, children: Children, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    try:
        await find_managers()
        [helm_program] = await helm.find()
    except UnavailableError as error:
        pytest.skip(f"NO PAGE WAS FOLLOWED ON A CLUSTER: {error}")
    beside = BESIDE.get(needs)
    given = cluster(children, tmp_path, beside=beside) if beside else nullcontext(tmp_path / "none")
    async with given as kubeconfig, shell(tmp_path, KUBECONFIG=str(kubeconfig)) as reader:
        reader.add_program(helm_program)
        for block in followed(page, needs):
            await follow(reader, block, name(page))
        tell(f"{name(page)} took {reader.seconds:.0f} s from its first block to its last")
