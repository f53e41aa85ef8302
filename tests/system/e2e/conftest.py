"""Runs the real thing: etcd, kube-apiserver and numalign-webhook, each a process of its own.

These tests show what only a real API server can: that it takes our configuration, our answers and our
patches, and what its users then read. One control plane serves the tests of this folder; folders below have
others of their own. Where none can be had, every test is skipped, as the last lines of the run state.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tests.system.e2e.callers import Showing, showing
from tests.system.e2e.own_planes import OwnPlane, own_planes
from tests.system.e2e.webhooks import Webhook
from tests.worlds.child_output import CHILDREN
from tests.worlds.programs import path_of
from tools.clusters import agents, shipped
from tools.clusters.api_objects import Store, make_ready
from tools.clusters.api_requests import Json, ask, gpus, rehearse
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.processes import Child, Children, program, run, until

AsUser = Callable[[str], ApiClient]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REASON = pytest.StashKey[str]()

# Who comes to the API server: a token, which is also the user's name, and the groups.
USERS = {
    "admin": "system:masters",
    "system:serviceaccount:kube-system:replicaset-controller": "system:serviceaccounts",
    "system:node:large": "system:nodes,system:masters",
}

PATHS = {
    "Node": "/api/v1/nodes",
    "NodeResourceTopology": "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/pods",
}
IN_A_SNAPSHOT = ("Node", "NodeResourceTopology", "Namespace", "Pod")

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")


# ---- the programs of the control plane: found or built before the time of any test runs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubernetes", metavar="VERSION", help="of the control plane, as v1.37.2")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "last: looks back on what the other tests did, or takes away what they use"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    if not ours or config.option.collectonly:
        return
    with live_output(config):
        code, folder, reason = asyncio.run(find_binaries(config.option.kubernetes))
    if code == os.EX_UNAVAILABLE:
        config.stash[REASON] = reason
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))
    elif code:
        pytest.exit(f"no end-to-end test can run: {reason}", returncode=1)
    else:
        config.stash[BINARIES] = Path(folder)


def live_output(config: pytest.Config) -> AbstractContextManager[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()


async def find_binaries(version: str | None) -> tuple[int, str, str]:
    """The exit code of the search, the folder it found, and the last line of its progress."""
    search = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.clusters.controlplane.build"),
        *(("--version", version) if version else ()),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert search.stdout
    assert search.stderr
    progress = ""
    async for line in search.stderr:
        progress = line.decode().strip()
        sys.stderr.write(f"{progress}\n")
    folder = await search.stdout.read()
    return await search.wait(), folder.decode().strip(), progress


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if reason := config.stash.get(REASON, None):
        terminalreporter.section("NOTHING WAS TESTED END TO END", yellow=True, bold=True)
        terminalreporter.line(reason, yellow=True)


# ---- their processes


@session_fixture()
async def children(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Children]:
    everyone = pytestconfig.stash[CHILDREN] = Children(logs=tmp_path_factory.mktemp("logs"))
    yield everyone
    await everyone.end()


# ---- the control plane


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> authority.Files:
    issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
    return authority.write(issued, tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Showing:
    """What the API server shows to webhooks that ask for it."""
    return showing(tmp_path_factory.mktemp("callers"))


@session_fixture()
async def plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
    shown: Showing,
) -> Plane:
    """An API server for USERS, without any webhook yet; it shows a certificate to webhooks."""
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("plane"), pair)
    running = Plane(children, place, users=USERS, flags=(shown.flag,))
    await running.start()
    return running


@session_fixture()
async def as_user(plane: Plane) -> AsyncIterator[AsUser]:
    async with AsyncExitStack() as stack:
        clients = {user: plane.client(user) for user in USERS}
        for client in clients.values():
            stack.push_async_callback(client.close)
        yield clients.__getitem__


@pytest.fixture(scope="session")
def own_plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> OwnPlane:
    return own_planes(pytestconfig, tmp_path_factory, children, pair)


# ---- what the cluster holds


@session_fixture()
async def snapshot(as_user: AsUser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet, as the API server gives it back once it was created there."""
    api = as_user("admin")
    await agents.define(Store(api))
    for document in shipped.documents(HERE / "fleet.yaml"):
        await install(api, document)
    file = tmp_path_factory.mktemp("fleet") / "snapshot.json"
    file.write_text(json.dumps(await everything(api)))
    return file


async def install(api: ApiClient, document: Json) -> None:
    answer = await ask(api, "POST", PATHS[document["kind"]], document)
    assert answer.code == HTTPStatus.CREATED, answer.body
    if document["kind"] == "Node":
        await make_ready(api, document["metadata"]["name"])


async def everything(api: ApiClient) -> Json:
    """What `kubectl get nodes,noderesourcetopologies,namespaces,pods -A -o json` prints."""
    lists = [(await ask(api, "GET", PATHS[kind])).body for kind in IN_A_SNAPSHOT]
    items = [
        {"apiVersion": of["apiVersion"], "kind": of["kind"].removesuffix("List"), **item}
        for of in lists
        for item in of["items"]
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


@session_fixture()
async def classes(snapshot: Path) -> Mapping[str, str]:
    """The class of each node, as `kubectl numa nodes` prints it."""
    code, output = await run(program("kubectl-numa"), "nodes", f"--snapshot={snapshot}", "--output=json")
    assert code == 0, output
    return {node["name"]: node["class"] for node in json.loads(output)}


# ---- the webhook


@session_fixture()
async def webhook(children: Children, snapshot: Path, pair: authority.Files, shown: Showing) -> Webhook:
    running = Webhook(children, pair, f"--snapshot={snapshot}", f"--client-ca={shown.authority}")
    await running.start()
    return running


@session_fixture()
async def admin(plane: Plane, as_user: AsUser, webhook: Webhook) -> ApiClient:
    """The administrator, once the API server calls the webhook."""
    client = as_user("admin")
    for document in webhook.configurations(plane.ca):
        await Store(client).apply(document)
    await until_called(client, webhook.child)
    return client


async def until_called(api: ApiClient, child: Child) -> None:
    """Returns when patches and refusals arrive: the API server learns its configuration with a delay."""
    await until(partial(patches, api), what="a pod was patched", child=child)
    await until(partial(refuses, api), what="a pod was refused", child=child)


async def patches(api: ApiClient) -> bool:
    return "affinity" in (await rehearse(api, asks=gpus(4))).body.get("spec", {})


async def refuses(api: ApiClient) -> bool:
    return (await rehearse(api, asks=gpus(8))).code == HTTPStatus.FORBIDDEN


@pytest_asyncio.fixture(loop_scope="session")
async def api(admin: ApiClient) -> AsyncIterator[ApiClient]:
    yield admin
    pods = await ask(admin, "GET", PATHS["Pod"])
    for left in pods.body["items"]:
        where = "/api/v1/namespaces/{namespace}/pods/{name}".format_map(left["metadata"])
        await ask(admin, "DELETE", where, gracePeriodSeconds="0")


@asynccontextmanager
async def gone(webhook: Webhook) -> AsyncIterator[None]:
    await webhook.child.end()
    yield
    await webhook.start()


@asynccontextmanager
async def frozen(webhook: Webhook) -> AsyncIterator[None]:
    webhook.child.send(signal.SIGSTOP)
    yield
    webhook.child.send(signal.SIGCONT)


ABSENCES = {"gone": gone, "frozen": frozen}


@pytest_asyncio.fixture(loop_scope="session", params=ABSENCES)
async def absence(request: pytest.FixtureRequest, admin: ApiClient, webhook: Webhook) -> AsyncIterator[str]:
    async with ABSENCES[request.param](webhook):
        yield request.param
    await until_called(admin, webhook.child)


@pytest.fixture
def kubectl(plane: Plane, tmp_path: Path) -> Callable[..., Awaitable[tuple[int, str]]]:
    """Runs kubectl as the administrator: exit code and output."""
    file = plane.kubeconfig("admin", tmp_path)
    return partial(run, path_of("kubectl"), f"--cache-dir={tmp_path / 'cache'}", KUBECONFIG=str(file))


@pytest.fixture
def kubectl_numa(plane: Plane, tmp_path: Path) -> Callable[..., Awaitable[tuple[int, str]]]:
    """Runs our own program as the administrator would: exit code and output."""
    return partial(run, program("kubectl-numa"), KUBECONFIG=str(plane.kubeconfig("admin", tmp_path)))
