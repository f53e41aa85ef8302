"""etcd, kube-apiserver and numalign-webhook, each a process of its own: what only a real API server decides.

One control plane serves the tests of this folder; folders below have others of their own. Where none can be
had, every test is skipped, as the last lines of the run state.
"""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tests.system.e2e.programs import OwnPlane, Webhook, kubeconfig
from tests.system.eventually import eventually
from tests.unit.docs.guides import EXAMPLES, Guide
from tests.worlds.child_output import CHILDREN
from tests.worlds.otlp import OtlpReceiver, receiving
from tests.worlds.programs import path_of
from tools.clusters import agents, builds, certificates, shipped
from tools.clusters.api_objects import Store, make_ready
from tools.clusters.api_requests import ask, gpus, rehearse
from tools.clusters.certificates import certificate, key_pem
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import BINARIES, Place, Plane, Users
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Child, Children, program, run, until

HERE = Path(__file__).resolve().parent
REASON = pytest.StashKey[str]()

# Who comes to the API server: a token, which is also the user's name, and the groups.
USERS = {
    "admin": "system:masters",
    shipped.CONTROLLERS: shipped.GROUPS,
    "system:serviceaccount:kube-system:replicaset-controller": "system:serviceaccounts",
    "system:node:large": "system:nodes,system:masters",
}
PATHS = {
    "Node": "/api/v1/nodes",
    "NodeResourceTopology": "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/pods",
}

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
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        try:
            config.stash[BINARIES] = asyncio.run(builds.control_plane(config.option.kubernetes))
        except UnavailableError as error:
            config.stash[REASON] = str(error)
            for item in ours:
                item.add_marker(pytest.mark.skip(reason=str(error)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if reason := config.stash.get(REASON, None):
        terminalreporter.section("NOTHING WAS TESTED END TO END", yellow=True, bold=True)
        terminalreporter.line(reason, yellow=True)


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
    return certificates.pair(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an API server needs to show a certificate to webhooks, as docs/how-to/certificates.md has it."""
    folder = tmp_path_factory.mktemp("callers")
    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(days=1)
    (folder / "caller.key").write_bytes(key_pem(key))
    (folder / "caller.crt").write_bytes(certificate(key, since=now - day, until=now + day))
    fences = [fence.text for fence in Guide.read("certificates").fences() if fence.language == EXAMPLES]
    for kind, file in (("AdmissionConfiguration", "admission.yaml"), ("Config", "callers.yaml")):
        [text] = [text for text in fences if re.search(rf"^kind: {kind}$", text, re.MULTILINE)]
        text = text.replace("/etc/kubernetes/numalign", str(folder))
        # Webhooks are called at addresses here, whose ports are not known beforehand.
        (folder / file).write_text(text.replace("numalign-webhook.numalign-system.svc", '"*"'))
    return folder


@session_fixture()
async def plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
    caller: Path,
) -> Plane:
    """An API server for USERS that traces every request, logs some, and calls no webhook yet."""
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("plane"), pair)
    tracing = place.folder / "tracing.yaml"
    tracing.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "apiserver.config.k8s.io/v1beta1",
                "kind": "TracingConfiguration",
                # Where nothing listens: the API server's own spans are not looked at.
                "endpoint": "127.0.0.1:9",
                "samplingRatePerMillion": 1_000_000,
            }
        )
    )
    flags = (
        f"--admission-control-config-file={caller / 'admission.yaml'}",
        f"--tracing-config-file={tracing}",
        *audits.flags(place.folder, users=("admin", shipped.CONTROLLERS)),
    )
    running = Plane(children, place, users=USERS, flags=flags)
    await running.start()
    return running


@session_fixture()
async def as_user(plane: Plane) -> AsyncIterator[Mapping[str, ApiClient]]:
    async with AsyncExitStack() as stack:
        yield {user: await stack.enter_async_context(plane.client(user)) for user in USERS}


@pytest.fixture(scope="session")
def own_plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> OwnPlane:
    @asynccontextmanager
    async def started(
        name: str,
        *,
        users: Users,
        needs: Iterable[str] = (),
        audited: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
    ) -> AsyncIterator[Plane]:
        """A plane during the block that logs the requests of `audited` users; skips without its programs."""
        place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp(name), pair)
        for each in needs:
            if not (place.binaries / each).is_file():
                pytest.skip(f"{place.binaries} has no {each}")
        logged = audits.flags(place.folder, users=audited) if audited else ()
        plane = Plane(children, place, users=users, flags=(*logged, *flags))
        await plane.start()
        async with plane.client("admin") as client:
            look = partial(ask, client, "GET", "/api/v1/namespaces/default")
            await eventually(look, lambda seen: seen.code == 200, "there was a namespace for pods")
        try:
            yield plane
        finally:
            await plane.end()

    return started


# ---- what the cluster holds


@session_fixture()
async def snapshot(as_user: Mapping[str, ApiClient], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `kubectl get nodes,noderesourcetopologies,namespaces,pods -A -o json` prints of the fleet."""
    api = as_user["admin"]
    await agents.define(Store(api))
    for document in shipped.documents(HERE / "fleet.yaml"):
        answer = await ask(api, "POST", PATHS[document["kind"]], document)
        assert answer.code == HTTPStatus.CREATED, answer.body
        if document["kind"] == "Node":
            await make_ready(api, document["metadata"]["name"])
    items = [
        {"apiVersion": of["apiVersion"], "kind": of["kind"].removesuffix("List"), **item}
        for of in [(await ask(api, "GET", path)).body for path in PATHS.values()]
        for item in of["items"]
    ]
    file = tmp_path_factory.mktemp("fleet") / "snapshot.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


@session_fixture()
async def classes(snapshot: Path) -> Mapping[str, str]:
    """The class of each node, as `kubectl numa nodes` prints it."""
    code, output = await run(program("kubectl-numa"), "nodes", f"--snapshot={snapshot}", "--output=json")
    assert code == 0, output
    return {node["name"]: node["class"] for node in json.loads(output)}


# ---- the webhook


@pytest.fixture(scope="session")
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="session")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The webhook's own log of refusals."""
    return tmp_path_factory.mktemp("audit") / "refusals.log"


@session_fixture()
async def webhook(  # noqa: PLR0913, PLR0917  what it reads and writes
    children: Children,
    snapshot: Path,
    pair: authority.Files,
    caller: Path,
    receiver: OtlpReceiver,
    refusals: Path,
) -> Webhook:
    # It samples nothing by itself.
    tracing = ("--trace-ratio=0", f"--otlp-endpoint={receiver.endpoint}")
    files = (f"--snapshot={snapshot}", f"--client-ca={caller / 'caller.crt'}", f"--audit-log={refusals}")
    running = Webhook(children, pair, *files, *tracing)
    await running.start()
    return running


@session_fixture()
async def admin(plane: Plane, as_user: Mapping[str, ApiClient], webhook: Webhook) -> ApiClient:
    """The administrator, once the API server calls the webhook."""
    client = as_user["admin"]
    for document in webhook.configurations(plane.ca):
        await Store(client).apply(document)
    await until_called(client, webhook.child)
    return client


async def until_called(api: ApiClient, child: Child) -> None:
    """Returns when patches and refusals arrive: the API server learns its configuration with a delay."""

    async def called() -> bool:
        patched, refused = [await rehearse(api, asks=gpus(count)) for count in (4, 8)]
        return "affinity" in patched.body.get("spec", {}) and refused.code == HTTPStatus.FORBIDDEN

    await until(called, what="pods were patched and refused", child=child)


@pytest_asyncio.fixture(loop_scope="session")
async def api(admin: ApiClient) -> AsyncIterator[ApiClient]:
    yield admin
    for left in (await ask(admin, "GET", PATHS["Pod"])).body["items"]:
        where = "/api/v1/namespaces/{namespace}/pods/{name}".format_map(left["metadata"])
        await ask(admin, "DELETE", where, gracePeriodSeconds="0")


@asynccontextmanager
async def gone(webhook: Webhook) -> AsyncIterator[None]:
    await webhook.child.end()
    yield
    await webhook.start()


@asynccontextmanager
async def frozen(webhook: Webhook) -> AsyncIterator[None]:
    webhook.child.process.send_signal(signal.SIGSTOP)
    yield
    webhook.child.process.send_signal(signal.SIGCONT)


@pytest_asyncio.fixture(loop_scope="session", params=[gone, frozen], ids=["gone", "frozen"])
async def absence(request: pytest.FixtureRequest, admin: ApiClient, webhook: Webhook) -> AsyncIterator[None]:
    async with request.param(webhook):
        yield
    await until_called(admin, webhook.child)


@pytest.fixture
def kubectl(plane: Plane, tmp_path: Path) -> Callable[..., Awaitable[tuple[int, str]]]:
    """Runs kubectl as the administrator: exit code and output."""
    cache = f"--cache-dir={tmp_path / 'cache'}"
    return partial(run, path_of("kubectl"), cache, KUBECONFIG=str(kubeconfig(plane, "admin")))


@pytest.fixture
def kubectl_numa(plane: Plane) -> Callable[..., Awaitable[tuple[int, str]]]:
    """Runs our own program as the administrator would: exit code and output."""
    return partial(run, program("kubectl-numa"), KUBECONFIG=str(kubeconfig(plane, "admin")))
