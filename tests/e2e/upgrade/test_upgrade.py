"""An installation from before there was a controller is upgraded under load, and loses nothing.

What was shipped then, and its code, come out of the history of this repository; the interpreter and its
libraries are those of today. Objects are applied and replicas replaced in the order in which a cluster does
it, with the webhook's old replicas going on without the rights that they had.
"""

import asyncio
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from certs import authority
from harness import fleets, shipped
from harness.api_objects import Store, namespace
from harness.api_requests import Json, ask
from harness.controlplane.planes import BINARIES, Place, Plane
from harness.controlplane.reviews import Reviews, reviews
from harness.processes import Children, run
from harness.replicas import ONLY_METRICS, PORTS, Replica, Replicas, replicas
from harness.waiting import SELDOM, seconds_until
from harness.wires import Wire, wire
from numalign.kube.client import Api
from tests.e2e.clusters import IMPATIENT, LEASE, admitted, command, controller
from tests.e2e.loads import LOADED, Load, load

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

BEFORE = "92b944c"
"""The last version whose webhook wrote."""

USERS = {"admin": "system:masters", **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS)}
NODES = ("dgx-00", "cpu-00", "one-00")
TOPOLOGIES = f"/apis/{fleets.TOPOLOGIES}/v1alpha2/noderesourcetopologies"
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}"
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
]
SECRETS = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets"
OLD_LEASE = LEASE.replace(shipped.CONTROLLER, shipped.NAME)

session_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")


@session_fixture()
async def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as it was."""
    folder = tmp_path_factory.mktemp("before")
    code, said = await run("sh", "-c", f"git -C {shipped.ROOT} archive {BEFORE} | tar -x -C {folder}")
    if code or not (folder / "webhook").is_dir():
        pytest.skip(f"NO UPGRADE WAS TESTED: this clone has no history back to {BEFORE} ({said.strip()})")
    return folder


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, and the one address behind which replicas of both versions stand."""

    plane: Plane
    store: Store
    children: Children
    service: Wire
    folder: Path

    def kubeconfig(self, account: str) -> Path:
        """By which a program comes."""
        folder = self.folder / account.rpartition(":")[2]
        folder.mkdir(exist_ok=True)
        return self.plane.kubeconfig(account, folder)

    async def install(self, documents: list[Json]) -> None:
        """As `kubectl apply` does."""
        for document in documents:
            await self.store.apply(shipped.by_address(document, self.service.port))

    async def labels(self) -> dict[str, str | None]:
        """The class of each node."""
        nodes = await self.store.list("v1", "Node")
        return {node["metadata"]["name"]: class_of(node) for node in nodes}

    async def until_labelled(self, *names: str) -> None:
        """Returns when they all have a class."""
        await seconds_until(
            self.labels,
            lambda now: all(now.get(name) for name in names),
            what=f"{names} had a class",
            within=60,
            every=SELDOM,
        )

    async def version(self) -> str:
        """Of all that is stored now."""
        found: str = (await ask(self.store.api, "GET", SECRETS)).body["metadata"]["resourceVersion"]
        return found

    async def since(self, path: str, version: str) -> list[Json]:
        """All that the objects of a kind were since then, one change after another."""
        query = [("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", "1")]
        server = Api(self.store.api, namespace="default")
        lines = [line async for line in server.lines(path, query, what=path, silence=10) if line]
        return [event["object"] for event in map(orjson.loads, lines)]

    async def configurations(self, version: str) -> list[Json]:
        """Those of webhooks, as they are and as they were since then."""
        now = [(await ask(self.store.api, "GET", path)).body["items"] for path in CONFIGURATIONS]
        since = [await self.since(path, version) for path in CONFIGURATIONS]
        return [each for found in (*now, *since) for each in found]


def class_of(node: Json) -> str | None:
    found: str | None = node["metadata"].get("labels", {}).get(shipped.LABEL)
    return found


def trusted(configuration: Json) -> Iterator[str]:
    for entry in configuration["webhooks"]:
        yield entry["clientConfig"].get("caBundle", "")


@session_fixture()
async def site(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[Site]:
    """Three nodes and a namespace that enforces, and nothing of ours."""
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("upgrade"), pair)
    plane = Plane(children, place, users=USERS)
    await plane.start()
    async with plane.client("admin") as client, wire() as service:
        store = Store(client)
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        await seconds_until(
            partial(ask, client, "GET", TOPOLOGIES),
            lambda answer: answer.code == HTTPStatus.OK,
            what="topologies were known",
            within=30,
            every=SELDOM,
        )
        await store.apply(namespace("enforced", {"numalign.io/enforce": "single-numa-node"}))
        for document in (*fleets.nodes(), *fleets.topologies()):
            if document["metadata"]["name"] in NODES:
                await store.replace(document)
        yield Site(plane, store, children, service, place.folder)
    await plane.kill()


def old_objects(folder: Path) -> list[Json]:
    """What was shipped, namespaces first."""
    files = sorted((folder / "deploy" / "manifests").glob("*.yaml"))
    found = [each for file in files if file.name != "kustomization.yaml" for each in shipped.documents(file)]
    return sorted(found, key=lambda each: each["kind"] != "Namespace")


def old_command(folder: Path, kubeconfig: Path) -> tuple[str, ...]:
    """The webhook as it was shipped, by its own code."""
    [deployment] = [each for each in old_objects(folder) if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    told = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"]) | {
        "kubeconfig": str(kubeconfig),
        "namespace": shipped.NAMESPACE,
        "bind": "127.0.0.1",
        "tls-names": "127.0.0.1,localhost",
        "drain-seconds": "2",
    }
    flags = [f"--{flag}={value}" for flag, value in told.items() if flag not in PORTS]
    # A module is looked for where one stands first.
    return ("env", "-C", str(folder), sys.executable, "-m", "webhook", *flags)


@asynccontextmanager
async def behind(site: Site, *everyone: Replicas) -> AsyncIterator[None]:
    """The Service leads to whichever of all these is ready, in turn."""
    turns = count()

    def ready() -> int | None:
        ports = [each.port for group in everyone for each in group.running if each.ready]
        return ports[next(turns) % len(ports)] if ports else None

    site.service.where = ready
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What was before and after, and all that happened in between."""

    load: Load
    reviews: Reviews
    codes: list[int]
    secret: Mapping[str, str]
    labels: Mapping[str, str | None]
    nodes: list[Json]
    secrets: list[Json]
    configurations: list[Json]
    after: Mapping[str, str]
    serials: set[int]
    old_serials: set[int]
    leader: str
    old_lease: Json
    joined: str | None
    said: str


@session_fixture()
async def upgrade(site: Site, old: Path) -> Upgrade:
    """The old chart's installation, and then the new one's in its place."""
    async with AsyncExitStack() as stack:
        start = partial(replicas, site.children)
        webhook, writer = (site.kubeconfig(account) for account in shipped.ACCOUNTS.values())
        leaving = await stack.enter_async_context(
            start(command=old_command(old, webhook), name="old", ports=PORTS[:1])
        )
        coming = await stack.enter_async_context(start(command=command(webhook, **IMPATIENT), name="new"))
        controllers = await stack.enter_async_context(
            start(command=controller(writer), name="writer", ports=ONLY_METRICS)
        )
        await stack.enter_async_context(behind(site, leaving, coming))
        return await _upgraded(site, old, leaving, coming, controllers)


async def _upgraded(
    site: Site, old: Path, leaving: Replicas, coming: Replicas, controllers: Replicas
) -> Upgrade:
    await site.install(old_objects(old))
    first = [await leaving.start() for _ in range(2)]
    await site.until_labelled(*NODES)
    old_serials = {await each.serial() for each in first}
    secret, labels, version = await _secret(site), await site.labels(), await site.version()
    await _until_admitted(site)
    before = await reviews(site.store.api)

    async with load(site.store.api, LOADED, right=admitted, namespace="enforced") as counted:
        await asyncio.sleep(1)
        await site.install(shipped.objects())
        # Without the rights that they had, for as long as a slow rollout may take.
        await asyncio.sleep(12)
        for _ in range(2):
            await controllers.start()
        codes = [await _replaced(coming, leaving, each) for each in first]
        await site.store.replace(fleets.node("late", fleets.SHAPES["cpu"]))
        await site.store.replace(fleets.topology("late", fleets.SHAPES["cpu"]))
        await site.until_labelled("late")
        # Longer than the controller's look at the certificate takes to come round.
        await asyncio.sleep(12)
    asked = (await reviews(site.store.api)).since(before)

    return Upgrade(
        load=counted,
        reviews=asked,
        codes=codes,
        secret=secret,
        labels=labels,
        nodes=await site.since("/api/v1/nodes", version),
        secrets=await site.since(SECRETS, version),
        configurations=await site.configurations(version),
        after=await _secret(site),
        serials={await each.serial() for each in coming.running},
        old_serials=old_serials,
        leader=(await ask(site.store.api, "GET", LEASE)).body["spec"]["holderIdentity"],
        old_lease=(await ask(site.store.api, "GET", OLD_LEASE)).body,
        joined=(await site.labels())["late"],
        said="".join(each.log.read_text() for each in first),
    )


async def _replaced(coming: Replicas, leaving: Replicas, replica: Replica) -> int:
    """As a Deployment with one more than it needs: a new one is ready before an old one ends."""
    await coming.start()
    return await leaving.stop(replica)


async def _secret(site: Site) -> dict[str, str]:
    found: dict[str, str] = (await ask(site.store.api, "GET", f"{SECRETS}/{shipped.SECRET}")).body["data"]
    return found


async def _until_admitted(site: Site) -> None:
    """An API server learns whom it is to ask by and by."""
    path = "/api/v1/namespaces/enforced/pods"
    look = partial(ask, site.store.api, "POST", path, LOADED, dryRun="All")
    await seconds_until(look, admitted, what="a pod was steered", within=60, every=SELDOM)


async def test_no_review_is_lost(upgrade: Upgrade, tell: Callable[[str], None]) -> None:
    assert (upgrade.reviews.failed, upgrade.load.wrong) == (0, [])
    assert upgrade.load.right > 100
    assert upgrade.codes == [0, 0]
    tell(f"upgraded from {BEFORE}: 0 failed of {upgrade.reviews.asked} reviews ({upgrade.load.right} pods)")


async def test_the_certificate_is_taken_over_as_it_is(upgrade: Upgrade) -> None:
    """The same pair, in the Secret at every moment, and shown by every replica."""
    assert upgrade.after == upgrade.secret
    assert [each for each in upgrade.secrets if each.get("data") != upgrade.secret] == []
    assert upgrade.serials == upgrade.old_serials
    assert len(upgrade.serials) == 1


async def test_its_authority_is_trusted_at_every_moment(upgrade: Upgrade) -> None:
    wanted = b64decode(upgrade.secret["ca.crt"])
    bundles = [b64decode(bundle) for each in upgrade.configurations for bundle in trusted(each)]
    assert bundles
    assert [bundle for bundle in bundles if wanted not in bundle] == []


async def test_no_label_of_a_node_is_touched(upgrade: Upgrade) -> None:
    """Neither by the old leader, which may write no more, nor by the new one, which finds them true."""
    changed = [each for each in upgrade.nodes if each["metadata"]["name"] in NODES]
    assert [each for each in changed if class_of(each) != upgrade.labels[each["metadata"]["name"]]] == []
    assert None not in {upgrade.labels[name] for name in NODES}


async def test_the_controller_goes_on_where_the_webhook_left_off(upgrade: Upgrade) -> None:
    assert upgrade.joined == upgrade.labels["cpu-00"]
    assert upgrade.leader
    assert upgrade.old_lease["metadata"]["name"] == shipped.NAME


async def test_old_replicas_say_what_they_may_write_no_more_and_go_on_answering(upgrade: Upgrade) -> None:
    assert '"event":"lease.failed"' in upgrade.said
    assert '"event":"task.failed"' not in upgrade.said
    assert '"event":"request.failed"' not in upgrade.said
