"""An old release is upgraded under load by the commands of docs/how-to/upgrade.md, and loses nothing.

The old chart and its code come out of the history of this repository; the interpreter and its libraries are
those of today. `helm install` and `helm upgrade` change a real API server. No kubelet runs the pods: replicas
are processes with the arguments of the installed Deployments, and are replaced in the order in which a
Deployment does it. Until then, old replicas run without the rights that they had.
"""

import asyncio
import shlex
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path

import orjson
import pytest
import pytest_asyncio
import yaml

from numalign.kube.client import Api
from tests.system.e2e.clusters import LEASE, admitted
from tests.system.e2e.loads import LOADED, Load, load
from tests.system.e2e.own_planes import OwnPlane
from tests.system.eventually import eventually
from tests.unit.docs.blocks import SHELL, Block
from tests.unit.docs.guides import Guide
from tests.unit.docs.shell import Outcome, Shell, shell
from tools.clusters import agents, fleets, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.reviews import Reviews, reviews
from tools.clusters.gotools import UnavailableError
from tools.clusters.helm import build as helm
from tools.clusters.helm import by_address
from tools.clusters.processes import Children, program, run
from tools.clusters.replicas import ONLY_METRICS, PORTS, Replica, Replicas, replicas
from tools.clusters.wires import Wire, wire

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

BEFORE = "92b944c"
"""The last version whose webhook wrote."""

ADDED = {"jobs.mutate.numalign.io", "pods-by-exclusive-cpus.validate.numalign.io"}
"""The webhooks that this version did not have."""

LOST = '"event":"lease.failed"'
USERS = {"admin": "system:masters", **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS)}
NODES = ("dgx-00", "cpu-00", "one-00")
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}"
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
]
SECRETS = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{shipped.NAMESPACE}/deployments"
ROLES = [
    f"/apis/rbac.authorization.k8s.io/v1/{place}/{shipped.NAME}"
    for place in ("clusterroles", f"namespaces/{shipped.NAMESPACE}/roles")
]
OLD_LEASE = LEASE.replace(shipped.CONTROLLER, shipped.NAME)


def documented(words: str) -> str:
    """The only block of docs/how-to/upgrade.md with these words."""
    fences = Guide.read("upgrade").fences()
    [found] = [fence.text for fence in fences if fence.language == SHELL and words in fence.text]
    return found


UPGRADE = documented("--reset-then-reuse-values")
REWRITTEN = documented("--reset-values -f")
"""If values were renamed."""
ROLLBACK = documented("helm rollback")

RESOURCES = {"requests": {"cpu": "150m", "memory": "384Mi"}, "limits": {"memory": "640Mi"}}
OLD_VALUES = {
    "replicas": 2,
    "resources": RESOURCES,
    "image": {"pullSecrets": [{"name": "registry"}]},
    "settings": {
        "log-level": "debug",
        "tls-days": 30,
        "tls-names": "127.0.0.1,localhost",
        "unknown-nodes": "may-fit",
    },
}
RENAMED_VALUES = {
    "imagePullSecrets": [{"name": "registry"}],
    "tls": {"days": 30, "extraNames": ["127.0.0.1", "localhost"]},
    "unknownNodes": "may-fit",
    "webhook": {"replicas": 2, "resources": RESOURCES, "extraArgs": {"log-level": "debug"}},
}
"""The same values under the names of today, as a person writes them with the page's table."""

session_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")


@session_fixture()
async def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    code, output = await run("sh", "-c", f"git -C {shipped.ROOT} archive {BEFORE} | tar -x -C {folder}")
    if code or not (folder / "webhook").is_dir():
        pytest.skip(f"NO UPGRADE WAS TESTED: this clone has no history back to {BEFORE} ({output.strip()})")
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
        folder = self.folder / account.rpartition(":")[2]
        folder.mkdir(exist_ok=True)
        return self.plane.kubeconfig(account, folder)

    async def program(self, name: str, *executable: str) -> tuple[str, ...]:
        """A program with the arguments of its Deployment, but for its ports, on this machine."""
        found = (await ask(self.store.api, "GET", f"{DEPLOYMENTS}/{name}")).body
        flags = shipped.arguments_of(found) | {
            "kubeconfig": str(self.kubeconfig(shipped.ACCOUNTS[name])),
            "namespace": shipped.NAMESPACE,
            "bind": "127.0.0.1",
            "drain-seconds": "2",
        }
        return *executable, *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)

    async def uids(self, documents: list[Json]) -> dict[str, str]:
        found = [(await self.store.path(each), await self.store.read(each)) for each in documents]
        return {
            path: answer.body["metadata"]["uid"] for path, answer in found if answer.code == HTTPStatus.OK
        }

    async def labels(self) -> dict[str, str | None]:
        nodes = await self.store.list("v1", "Node")
        return {node["metadata"]["name"]: class_of(node) for node in nodes}

    async def until_labelled(self, *names: str) -> None:
        await eventually(
            self.labels, lambda now: all(now.get(name) for name in names), f"{names} had a class"
        )

    async def version(self) -> str:
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


def untrusted(configurations: Iterable[Json], authority: bytes) -> set[str]:
    """The webhooks of which API servers do not trust the authority."""
    entries = [entry for each in configurations for entry in each["webhooks"]]
    assert entries
    return {
        entry["name"]
        for entry in entries
        if authority not in b64decode(entry["clientConfig"].get("caBundle", ""))
    }


@session_fixture()
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[Site]:
    """Three nodes and a namespace that enforces, and nothing of ours."""
    async with own_plane("upgrade", users=USERS) as plane, plane.client("admin") as client, wire() as service:
        store = Store(client)
        await agents.define(store)
        await store.apply(namespace("enforced", {"numalign.io/enforce": "single-numa-node"}))
        for document in (*fleets.nodes(), *fleets.topologies()):
            if document["metadata"]["name"] in NODES:
                await store.replace(document)
        yield Site(plane, store, children, service, plane.folder)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of the release, who follows docs/how-to/upgrade.md with the old values."""

    reader: Shell
    flags: str

    async def run(self, command: str) -> Outcome:
        return await self.reader.run(Block(0, f"{command.strip()} {self.flags}"))

    async def install(self, chart: Path) -> list[Json]:
        values = self.reader.folder / "old.yaml"
        values.write_text(yaml.safe_dump(OLD_VALUES))
        where = f"--namespace {shipped.NAMESPACE} --create-namespace"
        return await self._released(await self.run(f"helm install numalign {chart} {where} -f old.yaml"))

    async def upgrade(self) -> list[Json]:
        """To the chart of today, with the values renamed; the objects of the release."""
        save, upgrade = REWRITTEN.strip().splitlines()
        outcome = await self.reader.run(Block(0, save))
        assert outcome.exit_code == 0, outcome.printed
        values = self.reader.folder / "my.yaml"
        assert yaml.safe_load(values.read_text()) == OLD_VALUES
        values.write_text(yaml.safe_dump(RENAMED_VALUES))
        return await self._released(await self.run(upgrade))

    async def _released(self, outcome: Outcome) -> list[Json]:
        assert outcome.exit_code == 0, outcome.printed
        get = f"helm get manifest numalign --namespace {shipped.NAMESPACE}"
        manifest = (await self.reader.run(Block(0, get))).printed
        return [document for document in yaml.safe_load_all(manifest) if document]


@session_fixture()
async def owner(site: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Owner]:
    try:
        [program] = await helm.find()
    except UnavailableError as error:
        pytest.skip(f"NO UPGRADE WAS TESTED: {error}")
    kubeconfig = site.kubeconfig("admin")
    async with shell(tmp_path_factory.mktemp("owner"), KUBECONFIG=str(kubeconfig)) as reader:
        reader.add_program(program)
        yield Owner(reader, shlex.join(by_address.flags(site.service.port)))


def lead_to(site: Site, *everyone: Replicas) -> None:
    """The Service leads to whichever of all these is ready, in turn."""
    turns = count()

    def ready() -> int | None:
        ports = [each.port for group in everyone for each in group.running if each.ready]
        return ports[next(turns) % len(ports)] if ports else None

    site.service.where = ready


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
    logs: str
    refused: Outcome
    reused: Outcome
    removed: Outcome
    objects: Mapping[str, str]
    old_objects: Mapping[str, str]
    webhook: Json
    rights: list[Json]


@session_fixture()
async def upgrade(site: Site, owner: Owner, old: Path) -> AsyncIterator[Upgrade]:
    """The old chart's release, and then the new one's in its place."""
    async with AsyncExitStack() as stack:
        yield await _upgraded(site, owner, old, stack)


async def _upgraded(site: Site, owner: Owner, old: Path, stack: AsyncExitStack) -> Upgrade:
    start = partial(replicas, site.children)
    before = await site.uids(await owner.install(old / "deploy" / "chart"))
    # A module is looked for first in the folder where Python starts.
    executable = ("env", "-C", str(old), sys.executable, "-m", "webhook")
    command = await site.program(shipped.NAME, *executable)
    leaving = await stack.enter_async_context(start(command=command, name="old", ports=PORTS[:1]))
    lead_to(site, leaving)
    first = [await leaving.start() for _ in range(2)]
    await site.until_labelled(*NODES)
    old_serials = {await each.serial() for each in first}
    secret, labels, version = await _secret(site), await site.labels(), await site.version()
    await _until_admitted(site)
    counted = await reviews(site.store.api)

    async with load(site.store.api, LOADED, right=admitted, namespace="enforced") as pods:
        await asyncio.sleep(1)
        refused = await owner.run(UPGRADE)
        reused = await owner.run(UPGRADE.replace("--reset-then-reuse-values", "--reuse-values"))
        nothing = ",".join(
            f"{name}=null" for name in ("replicas", "resources", "image.pullSecrets", "settings")
        )
        removed = await owner.run(f"{UPGRADE.strip()} --set {nothing} --dry-run=server")
        released = await owner.upgrade()
        # Old replicas run without the rights that they had, as during a slow rollout.
        logs = partial(_logs, first)
        await eventually(logs, lambda text: LOST in text, "the lease was lost")
        coming, controllers = [
            await stack.enter_async_context(
                start(command=await site.program(name, program(name)), name=f"new-{name}", ports=ports)
            )
            for name, ports in ((shipped.NAME, PORTS), (shipped.CONTROLLER, ONLY_METRICS))
        ]
        lead_to(site, leaving, coming)
        for _ in range(2):
            await controllers.start()
        codes = [await _replaced(coming, leaving, each) for each in first]
        await site.store.replace(fleets.node("late", fleets.SHAPES["cpu"]))
        await site.store.replace(fleets.topology("late", fleets.SHAPES["cpu"]))
        await site.until_labelled("late")
        look = partial(site.configurations, version)
        await eventually(
            look,
            lambda seen: not untrusted(seen[: len(CONFIGURATIONS)], b64decode(secret["ca.crt"])),
            "the controller had checked the certificate",
        )
        await asyncio.sleep(2)
    reviewed = (await reviews(site.store.api)).since(counted)

    return Upgrade(
        load=pods,
        reviews=reviewed,
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
        logs=await _logs(first),
        refused=refused,
        reused=reused,
        removed=removed,
        objects=await site.uids(released),
        old_objects=before,
        webhook=(await ask(site.store.api, "GET", f"{DEPLOYMENTS}/{shipped.NAME}")).body,
        rights=[rule for path in ROLES for rule in (await ask(site.store.api, "GET", path)).body["rules"]],
    )


async def _logs(replicas: Iterable[Replica]) -> str:
    return "".join(each.log.read_text() for each in replicas)


async def _replaced(coming: Replicas, leaving: Replicas, replica: Replica) -> int:
    """As a Deployment with one more than it needs: a new one is ready before an old one ends."""
    await coming.start()
    return await leaving.stop(replica)


async def _secret(site: Site) -> dict[str, str]:
    found: dict[str, str] = (await ask(site.store.api, "GET", f"{SECRETS}/{shipped.SECRET}")).body["data"]
    return found


async def _until_admitted(site: Site) -> None:
    path = "/api/v1/namespaces/enforced/pods"
    look = partial(ask, site.store.api, "POST", path, LOADED, dryRun="All")
    await eventually(look, admitted, "a pod was steered")


async def test_no_review_is_lost(upgrade: Upgrade, print_at_end: Callable[[str], None]) -> None:
    assert (upgrade.reviews.failed, upgrade.load.wrong) == (0, [])
    assert upgrade.load.right > 100
    assert upgrade.codes == [0, 0]
    print_at_end(
        f"upgraded from {BEFORE}: 0 failed of {upgrade.reviews.asked} reviews ({upgrade.load.right} pods)"
    )


async def test_the_certificate_is_taken_over_as_it_is(upgrade: Upgrade) -> None:
    assert upgrade.after == upgrade.secret
    # Helm keeps the records of its releases in Secrets too.
    written = [each["data"] for each in upgrade.secrets if each["metadata"]["name"] == shipped.SECRET]
    assert [data for data in written if data != upgrade.secret] == []
    assert upgrade.serials == upgrade.old_serials
    assert len(upgrade.serials) == 1


async def test_its_authority_is_trusted_at_every_moment(upgrade: Upgrade) -> None:
    """Of webhooks that are new, from when the new controller has seen them: nobody has used them before."""
    wanted = b64decode(upgrade.secret["ca.crt"])
    now, before = upgrade.configurations[: len(CONFIGURATIONS)], upgrade.configurations[len(CONFIGURATIONS) :]
    assert now
    assert untrusted(now, wanted) == set()
    assert untrusted(before, wanted) <= ADDED


async def test_no_label_of_a_node_is_touched(upgrade: Upgrade) -> None:
    """Neither by the old leader, which may write no more, nor by the new one, which finds them true."""
    changed = [each for each in upgrade.nodes if each["metadata"]["name"] in NODES]
    assert [each for each in changed if class_of(each) != upgrade.labels[each["metadata"]["name"]]] == []
    assert None not in {upgrade.labels[name] for name in NODES}


async def test_controller_continues_the_work_of_the_webhook(upgrade: Upgrade) -> None:
    assert upgrade.joined == upgrade.labels["cpu-00"]
    assert upgrade.leader
    assert upgrade.old_lease["metadata"]["name"] == shipped.NAME


async def test_old_replicas_report_lost_rights_and_answer(upgrade: Upgrade) -> None:
    assert LOST in upgrade.logs
    assert '"event":"task.failed"' not in upgrade.logs
    assert '"event":"request.failed"' not in upgrade.logs


async def test_helm_rejects_renamed_values_and_old_defaults(upgrade: Upgrade) -> None:
    assert upgrade.refused.exit_code != 0
    for old, new in (
        ("replicas", "webhook.replicas"),
        ("image.pullSecrets", "imagePullSecrets"),
        ("settings.tls-names", "tls.extraNames"),
        ("settings.unknown-nodes", "unknownNodes"),
    ):
        assert f"{old} is now called {new}\n" in upgrade.refused.printed
    assert upgrade.reused.exit_code != 0
    advice = "run helm upgrade with --reset-then-reuse-values in place of --reuse-values"
    assert advice in upgrade.reused.printed
    assert upgrade.removed.exit_code == 0, upgrade.removed.printed


async def test_values_hold_under_their_new_names(upgrade: Upgrade) -> None:
    spec = upgrade.webhook["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["resources"] == RESOURCES
    flags = {"--log-level=debug", "--tls-names=127.0.0.1,localhost", "--unknown-nodes=may-fit"}
    assert flags <= {*container["args"]}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


async def test_no_object_is_recreated(upgrade: Upgrade) -> None:
    assert f"{DEPLOYMENTS}/{shipped.NAME}" in upgrade.old_objects
    assert {path: upgrade.objects.get(path) for path in upgrade.old_objects} == upgrade.old_objects


async def test_the_webhook_loses_its_rights_to_write(upgrade: Upgrade) -> None:
    verbs = {verb for rule in upgrade.rights for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


@pytest.mark.last
async def test_a_rollback_leaves_the_authority_where_it_is(
    site: Site, owner: Owner, upgrade: Upgrade
) -> None:
    outcome = await owner.reader.run(Block(0, ROLLBACK))
    assert outcome.exit_code == 0, outcome.printed
    deployment = await ask(site.store.api, "GET", f"{DEPLOYMENTS}/{shipped.CONTROLLER}")
    assert deployment.code == HTTPStatus.NOT_FOUND
    configurations = await site.configurations(await site.version())
    assert untrusted(configurations, b64decode(upgrade.secret["ca.crt"])) == set()
