"""What pages tell readers to type at a cluster does what they say: real control planes, simulated nodes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.config import new_client_from_config

from tests.system.eventually import eventually
from tests.unit.docs.blocks import ROOT, Block, Needs, name, pages, read
from tests.unit.docs.shell import follow, shell
from tools.clusters import builds
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, rehearse
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Children, until

# The first test may have to build the kubelet's managers and helm.
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1800)]

NODES = ("--shape", "two-by-four=3,small=1")
BESIDE = {Needs.CLUSTER: "scheduler", Needs.RELEASE: "scheduler", Needs.NUMALIGN: "numalign"}
NAMESPACE = "kubectl create namespace team\n"

# What a reader has before a page begins, whatever the page before did to the cluster.
OWN = """\
kubectl delete namespace team --ignore-not-found
cat > pod.yaml <<'YAML'
apiVersion: v1
kind: Pod
metadata:
  name: trainer
  namespace: team
  annotations:
    numalign.io/policy: single-numa-node
spec:
  containers:
  - name: main
    image: trainer:1
    resources:
      limits: {cpu: "8", memory: 16Gi, nvidia.com/gpu: "1"}
YAML
"""
RELEASE = """\
helm upgrade --install numalign deploy/chart -n numalign-system --create-namespace --reset-values
"""
PREPARED = {Needs.CLUSTER: OWN, Needs.RELEASE: OWN + RELEASE, Needs.NUMALIGN: OWN}

SHARED = frozenset({Needs.RELEASE, Needs.NUMALIGN})
"""Pages come one after the other to such a cluster; any other is a page's own."""

KubeconfigFor = Callable[[Needs], Awaitable[Path]]


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
    command = (sys.executable, "-m", "tools.clusters.sim", *NODES, "--with", beside)
    child = await children.start(
        *command, "--write-kubeconfig", str(kubeconfig), name=f"sim-{beside}", cwd=ROOT
    )

    async def written() -> bool:
        return await asyncio.to_thread(kubeconfig.exists)

    try:
        await until(written, what="the cluster was there", child=child, seconds=120)
        yield kubeconfig
    finally:
        await child.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(
    children: Children, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KubeconfigFor]:
    """The kubeconfig of the cluster for a need, which is started when a page first needs it."""
    running: dict[Needs, Path] = {}
    async with AsyncExitStack() as stack:

        async def started(needs: Needs) -> Path:
            if needs not in running:
                made = cluster(children, tmp_path_factory.mktemp(needs), beside=BESIDE[needs])
                running[needs] = await stack.enter_async_context(made)
            return running[needs]

        yield started


async def until_labels_count(kubeconfig: Path) -> None:
    """Returns when the webhook knows the labels of namespaces: it gathers changes for up to a second.

    It hears of namespaces in order, so that whoever knows the last change knows all.
    """
    async with await new_client_from_config(str(kubeconfig)) as api:
        api.set_default_header("Authorization", api.configuration.api_key["BearerToken"])
        # What becomes of a pod that requests nothing where this is enforced.
        for labels, code in (
            ({"numalign.io/enforce": "restricted"}, HTTPStatus.FORBIDDEN),
            ({}, HTTPStatus.CREATED),
        ):
            await Store(api).apply(namespace("canary", labels))
            look = partial(rehearse, api, asks={}, namespace="canary", annotations={})

            def right(seen: Answer, code: HTTPStatus = code) -> bool:
                return seen.code == code

            await eventually(look, right, f"{labels} were in force")


@pytest.mark.parametrize(("page", "needs"), SESSIONS)
async def test_commands_of_a_page_run(
    page: Path, needs: Needs, shared: KubeconfigFor, children: Children, tmp_path: Path
) -> None:
    try:
        await builds.managers()
        helm_program = await builds.helm()
    except UnavailableError as error:
        pytest.skip(f"NO PAGE WAS FOLLOWED ON A CLUSTER: {error}")
    async with AsyncExitStack() as stack:
        kubeconfig = tmp_path / "kubeconfig"
        if needs in SHARED:
            kubeconfig = await shared(needs)
        elif needs in BESIDE:
            await stack.enter_async_context(cluster(children, tmp_path, beside=BESIDE[needs]))
        reader = await stack.enter_async_context(shell(tmp_path, KUBECONFIG=str(kubeconfig)))
        reader.add_program(helm_program)
        blocks = followed(page, needs)
        # A page may make its namespace itself.
        makes_it = needs not in PREPARED or any(NAMESPACE in block.commands for block in blocks)
        before = PREPARED.get(needs, "") + ("" if makes_it else NAMESPACE)
        prepared = await reader.run(Block(0, before))
        assert prepared.exit_code == 0, prepared.printed
        for block in blocks:
            await follow(reader, block, name(page))
            if needs is Needs.NUMALIGN and "label namespace" in block.commands:
                await until_labels_count(kubeconfig)
