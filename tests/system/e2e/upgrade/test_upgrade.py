"""An old release is upgraded under load by the commands of docs/how-to/upgrade.md, and loses nothing.

The old chart and its code come out of the history of this repository, with the interpreter and libraries of
today. No kubelet runs the pods: replicas are processes with the arguments of the installed Deployments, and
replaced as a Deployment does it; until then, old replicas run without the rights that they had.
"""

import asyncio
import shlex
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable
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
from tests.system.e2e.clusters import LEASE, LOADED, admitted, lossless
from tests.system.e2e.programs import OwnPlane, kubeconfig
from tests.system.eventually import eventually
from tests.unit.docs.blocks import SHELL, Block
from tests.unit.docs.guides import Guide
from tests.unit.docs.shell import Shell, shell
from tools.clusters import agents, builds, fleets, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane.planes import Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Children, program, run
from tools.clusters.replicas import ONLY_METRICS, PORTS, Replica, Replicas, replicas
from tools.clusters.wires import Wire, wire

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

BEFORE = "92b944c"
"""The last version whose webhook wrote."""

ADDED = {"jobs.mutate.numalign.io", "pods-by-exclusive-cpus.validate.numalign.io"}
"""The webhooks that this version did not have."""

LOST = '"event":"lease.failed"'
FAILURES = {'"event":"task.failed"', '"event":"request.failed"'}
USERS = {"admin": "system:masters", **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS)}
NODES = ("dgx-00", "cpu-00", "one-00")
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}"
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
]
SECRETS = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{shipped.NAMESPACE}/deployments"
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


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, the one address behind which replicas of both versions stand, and the release's owner.

    The owner follows docs/how-to/upgrade.md with the old values; the old version is in a folder of its own.
    """

    plane: Plane
    store: Store
    children: Children
    service: Wire
    reader: Shell

    @property
    def old(self) -> Path:
        return self.reader.folder.parent / "old"

    @property
    def flags(self) -> str:
        return shlex.join(shipped.post_renderer(self.service.port))

    async def typed(self, command: str) -> str:
        outcome = await self.reader.run(Block(0, command.strip()))
        assert outcome.exit_code == 0, outcome.printed
        return outcome.printed

    async def install(self) -> dict[str, str]:
        (self.reader.folder / "old.yaml").write_text(yaml.safe_dump(OLD_VALUES))
        where = f"--namespace {shipped.NAMESPACE} --create-namespace"
        await self.typed(f"helm install numalign {self.old}/deploy/chart {where} -f old.yaml {self.flags}")
        return await self.uids()

    async def upgrade(self) -> dict[str, str]:
        """To the chart of today, with the values renamed."""
        save, upgrade = REWRITTEN.strip().splitlines()
        await self.typed(save)
        values = self.reader.folder / "my.yaml"
        assert yaml.safe_load(values.read_text()) == OLD_VALUES
        values.write_text(yaml.safe_dump(RENAMED_VALUES))
        await self.typed(f"{upgrade} {self.flags}")
        return await self.uids()

    async def uids(self) -> dict[str, str]:
        """Of all objects of the release that are there, by path."""
        manifest = await self.typed(f"helm get manifest numalign --namespace {shipped.NAMESPACE}")
        released = [document for document in yaml.safe_load_all(manifest) if document]
        found = [(await self.store.path(each), await self.store.read(each)) for each in released]
        return {
            path: answer.body["metadata"]["uid"] for path, answer in found if answer.code == HTTPStatus.OK
        }

    async def program(self, name: str, *executable: str) -> tuple[str, ...]:
        """A program with the arguments of its Deployment, but for its ports, on this machine."""
        found = (await ask(self.store.api, "GET", f"{DEPLOYMENTS}/{name}")).body
        flags = shipped.arguments_of(found) | {
            "kubeconfig": str(kubeconfig(self.plane, shipped.ACCOUNTS[name])),
            "namespace": shipped.NAMESPACE,
            "bind": "127.0.0.1",
            "drain-seconds": "2",
        }
        return *executable, *(f"--{flag}={value}" for flag, value in flags.items() if flag not in PORTS)

    async def labels(self) -> dict[str, str | None]:
        return {node["metadata"]["name"]: class_of(node) for node in await self.store.list("v1", "Node")}

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
async def site(
    own_plane: OwnPlane, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """Three nodes and a namespace that enforces, and nothing of ours."""
    folder = tmp_path_factory.mktemp("owner")
    archive = f"mkdir old && git -C {shipped.ROOT} archive {BEFORE} | tar -x -C old"
    code, output = await run("sh", "-c", f"cd {folder} && {archive}")
    if code or not (folder / "old" / "webhook").is_dir():
        pytest.skip(f"NO UPGRADE WAS TESTED: this clone has no history back to {BEFORE} ({output.strip()})")
    try:
        program = await builds.helm()
    except UnavailableError as error:
        pytest.skip(f"NO UPGRADE WAS TESTED: {error}")
    async with own_plane("upgrade", users=USERS) as plane, plane.client("admin") as client, wire() as service:
        store = Store(client)
        await agents.define(store)
        await store.apply(namespace("enforced", {"numalign.io/enforce": "single-numa-node"}))
        for document in (*fleets.nodes(), *fleets.topologies()):
            if document["metadata"]["name"] in NODES:
                await store.replace(document)
        async with shell(folder, KUBECONFIG=str(kubeconfig(plane, "admin"))) as reader:
            reader.add_program(program)
            yield Site(plane, store, children, service, reader)


def lead_to(site: Site, *everyone: Replicas) -> None:
    """The Service leads to whichever of all these is ready, in turn."""
    turns = count()

    def ready() -> int | None:
        ports = [each.port for group in everyone for each in group.running if each.ready]
        return ports[next(turns) % len(ports)] if ports else None

    site.service.where = ready


async def logs_of(replicas: Iterable[Replica]) -> str:
    return "".join(each.log.read_text() for each in replicas)


async def secret_of(site: Site) -> dict[str, str]:
    found: dict[str, str] = (await ask(site.store.api, "GET", f"{SECRETS}/{shipped.SECRET}")).body["data"]
    return found


async def test_upgrade_under_load_loses_nothing(site: Site) -> None:
    async with AsyncExitStack() as stack:
        start = partial(replicas, site.children)
        old_objects = await site.install()
        # A module is looked for first in the folder where Python starts.
        executable = ("env", "-C", str(site.old), sys.executable, "-m", "webhook")
        command = await site.program(shipped.NAME, *executable)
        leaving = await stack.enter_async_context(start(command=command, name="old", ports=PORTS[:1]))
        lead_to(site, leaving)
        first = [await leaving.start() for _ in range(2)]
        await site.until_labelled(*NODES)
        serials = {await each.serial() for each in first}
        secret, labels, version = await secret_of(site), await site.labels(), await site.version()
        authority = b64decode(secret["ca.crt"])
        path = "/api/v1/namespaces/enforced/pods"
        look = partial(ask, site.store.api, "POST", path, LOADED, dryRun="All")
        await eventually(look, admitted, "a pod was steered")

        async with lossless(site.store.api, right=admitted):
            renamed = await site.reader.run(Block(0, f"{UPGRADE.strip()} {site.flags}"))
            objects = await site.upgrade()
            # Old replicas run without the rights that they had, as during a slow rollout.
            await eventually(partial(logs_of, first), lambda text: LOST in text, "the lease was lost")
            coming, controllers = [
                await stack.enter_async_context(
                    start(command=await site.program(name, program(name)), name=f"new-{name}", ports=ports)
                )
                for name, ports in ((shipped.NAME, PORTS), (shipped.CONTROLLER, ONLY_METRICS))
            ]
            lead_to(site, leaving, coming)
            for _ in range(2):
                await controllers.start()
            # As a Deployment with one more than it needs: a new one is ready before an old one ends.
            for each in first:
                await coming.start()
                assert await leaving.stop(each) == 0
            await site.store.replace(fleets.node("late", fleets.SHAPES["cpu"]))
            await site.store.replace(fleets.topology("late", fleets.SHAPES["cpu"]))
            await site.until_labelled("late")
            await eventually(
                partial(site.configurations, version),
                lambda seen: not untrusted(seen[: len(CONFIGURATIONS)], authority),
                "the controller had checked the certificate",
            )
            await asyncio.sleep(1)

        # Helm stops at values that were renamed, and creates no object anew.
        assert renamed.exit_code != 0
        assert "replicas is now called webhook.replicas\n" in renamed.printed
        assert f"{DEPLOYMENTS}/{shipped.NAME}" in old_objects
        assert {path: objects.get(path) for path in old_objects} == old_objects
        # The certificate stays as it is, in the Secret at every moment, and at every replica.
        assert await secret_of(site) == secret
        written = [
            each for each in await site.since(SECRETS, version) if each["metadata"]["name"] == shipped.SECRET
        ]
        assert [each for each in written if each["data"] != secret] == []
        assert {await each.serial() for each in coming.running} == serials
        assert len(serials) == 1
        # Its authority is trusted at every moment; by new webhooks once the new controller has seen them.
        before = (await site.configurations(version))[len(CONFIGURATIONS) :]
        assert untrusted(before, authority) <= ADDED
        # Neither the old leader nor the new one changes a label of a node; the new one labels new nodes.
        changed = [
            each for each in await site.since("/api/v1/nodes", version) if each["metadata"]["name"] in NODES
        ]
        assert [each for each in changed if class_of(each) != labels[each["metadata"]["name"]]] == []
        assert None not in {labels[name] for name in NODES}
        assert (await site.labels())["late"] == labels["cpu-00"]
        assert (await ask(site.store.api, "GET", LEASE)).body["spec"]["holderIdentity"]
        assert (await ask(site.store.api, "GET", OLD_LEASE)).code == HTTPStatus.OK
        # Old replicas only log the rights that they lost.
        assert not {event for event in FAILURES if event in await logs_of(first)}


async def test_rollback_keeps_the_authority(site: Site) -> None:
    authority = b64decode((await secret_of(site))["ca.crt"])
    await site.typed(ROLLBACK)
    deployment = await ask(site.store.api, "GET", f"{DEPLOYMENTS}/{shipped.CONTROLLER}")
    assert deployment.code == HTTPStatus.NOT_FOUND
    configurations = await site.configurations(await site.version())
    assert untrusted(configurations, authority) == set()
