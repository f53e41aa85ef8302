"""A webhook in the process of its tests, and pods, reviews and snapshots as documents."""

import contextlib
import io
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from numalign.cache import ClusterCache
from numalign.cache.admission import Refusals, decide
from numalign.kube.cluster import Cluster
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.model import intent
from numalign.model.intent import Match
from numalign.model.node import Node
from numalign.runtime import server
from numalign.scheduling.recent_refusals import RecentRefusals
from numalign.shapes import UnknownNode
from numalign.shapes.hints import unhinted
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.manifests import labelled, topology, v1_pod
from tests.worlds.naming import named
from webhook import review
from webhook.handlers import application
from webhook.known_cluster import KnownCluster
from webhook.mutate import Avoidance
from webhook.quota import RecentlyAdmitted
from webhook.refusal_audit import RefusalAudit
from webhook.review import Review, ReviewedPod, SkipReason, created_pod
from webhook.settings import WebhookSettings
from webhook.workloads import Decide

Raw = dict[str, Any]

TEAM = "team"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
POLICY = "numalign.io/policy"

SOON = 0.01


def raw(*containers: str, policy: str | None = None, annotations: Mapping[str, str] | None = None) -> Raw:
    """A v1 Pod of a template, of containers in the notation of the tables."""
    return v1_pod(*containers, policy=policy, annotations=annotations, generateName="web-")


def with_spec(made: Raw, **spec: object) -> Raw:
    return {**made, "spec": {**made["spec"], **spec}}


def request(made: object, **changes: object) -> Raw:
    """The AdmissionReview of a pod that is created in the namespace `team`, as a document."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review_of = {"uid": UID, "kind": kind, "resource": resource, "namespace": TEAM, "operation": "CREATE"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**review_of, "object": made, **changes},
    }


def review_of(made: object, **changes: object) -> Review:
    return review.read(orjson.dumps(request(made, **changes)))


class Reviewing(NamedTuple):
    """What a review is answered from."""

    cache: ClusterCache
    policy: EffectivePolicy = EffectivePolicy()


def cluster(
    members: Iterable[Node] = (),
    *,
    unknown: int = 0,
    labels: Mapping[str, str] | None = None,
    others: Mapping[str, str] | None = None,
) -> Reviewing:
    """A cluster of these nodes, whose namespace `team` has these labels (unprefixed) and others."""
    full = {**(others or {}), **{f"{intent.PREFIX}{key}": value for key, value in (labels or {}).items()}}
    rules, _ = intent.parse_namespace(full)
    hidden = {name: UnknownNode(name) for name in (f"bare-{number}" for number in range(unknown))}
    nodes = [*members]
    policy = EffectivePolicy(rules={TEAM: rules}, labels={TEAM: full}, unhinted=unhinted(nodes))
    return Reviewing(ClusterCache.of(named(nodes), unknown=hidden), policy)


def decided(now: Reviewing, *, may_fit: bool = False, refusals: Refusals | None = None) -> Decide:
    when = refusals or Refusals(unknown_may_fit=may_fit)
    return partial(decide, cache=now.cache, refusals=when, now=0.0)


def read(made: Raw, now: Reviewing, *, match: Match = Match.SATISFIES) -> ReviewedPod:
    found = created_pod(review_of(made), now.policy, reader=PodReader(match))
    assert not isinstance(found, SkipReason)
    return found


def snapshot(
    members: Mapping[str, Node], *, namespaces: Mapping[str, Mapping[str, str]] | None = None
) -> Raw:
    """What kubectl prints of such nodes and namespaces; a node without zones publishes no topology."""
    items = [
        labelled("Node", name, {f"{intent.PREFIX}class": made.label} if made.label else {})
        for name, made in members.items()
    ]
    items += [topology(name, made) for name, made in members.items() if made.zones]
    for name, labels in (namespaces or {}).items():
        items.append(
            labelled("Namespace", name, {f"{intent.PREFIX}{key}": value for key, value in labels.items()})
        )
    return {"apiVersion": "v1", "kind": "List", "items": items}


@dataclass
class Webhook:
    """A webhook in this process, its snapshot file, and a client of it."""

    path: Path
    journal: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: Clock = field(default_factory=Clock)
    audit: RefusalAudit | None = None

    def __post_init__(self) -> None:
        self.policy = PolicyKeeper(None, log=self.journal.log, registry=self.registry)
        self.cluster = Cluster()
        self.feed = FileFeed(
            self.path,
            self.cluster,
            every=SOON,
            log=self.journal.log,
            registry=self.registry,
            declared=self.policy.declared,
            clock=self.clock,
        )
        self.known = KnownCluster(self.cluster, self.feed, log=self.journal.log, registry=self.registry)
        self.refusals = RecentRefusals(clock=self.clock, wall=self.clock)
        self.recent = RecentlyAdmitted(self.clock)

    async def load(self) -> None:
        await self.feed.load()

    def put(
        self, members: Mapping[str, Node], *, pods: Iterable[Raw] = (), **namespaces: Mapping[str, str]
    ) -> None:
        made = snapshot(members, namespaces=namespaces)
        self.put_bytes(orjson.dumps({**made, "items": [*made["items"], *pods]}))

    async def know(self, members: Mapping[str, Node], **fields: Any) -> None:  # noqa: ANN401  as `put`
        """The cluster is this now, and observed."""
        self.put(members, **fields)
        await self.load()

    def put_bytes(self, content: bytes) -> None:
        written = self.path.with_suffix(".new")
        written.write_bytes(content)
        written.replace(self.path)

    def settings(self, **chosen: object) -> WebhookSettings:
        return WebhookSettings.model_validate({"snapshot": self.path, "insecure_http": True, **chosen})

    def app(self, **chosen: object) -> web.Application:
        settings = self.settings(**chosen)
        return application(
            settings,
            known=self.known,
            policy=self.policy,
            avoidance=self.avoidance(settings),
            log=self.journal.log,
            registry=self.registry,
            audit=self.audit,
            recent=self.recent,
        )

    def avoidance(self, settings: WebhookSettings) -> Avoidance:
        return Avoidance(self.refusals, PodReader(settings.policy_match))

    @contextlib.asynccontextmanager
    async def open(self, **chosen: object) -> AsyncIterator["Caller"]:
        app = self.app(**chosen)
        async with (
            TestClient(TestServer(app)) as client,
            TestClient(TestServer(server.health_application(app))) as watching,
        ):
            yield Caller(client, watching)

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0


@dataclass(frozen=True)
class Caller:
    """One who calls the webhook, as an API server or not."""

    client: TestClient[web.Request, web.Application]
    watching: TestClient[web.Request, web.Application]

    async def send(
        self, path: str, body: bytes, *, content_type: str = "application/json"
    ) -> tuple[int, Raw]:
        headers = {"Content-Type": content_type}
        async with self.client.post(path, data=io.BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.json()

    async def ask(self, path: str, made: object, **changes: object) -> Raw:
        status, document = await self.send(path, orjson.dumps(request(made, **changes)))
        assert status == 200, document
        assert document["response"]["uid"] == UID
        response: Raw = document["response"]
        return response

    async def get(self, path: str) -> tuple[int, str]:
        async with self.watching.get(path) as answer:
            return answer.status, await answer.text()

    async def metric(self, name: str, **labels: str) -> float:
        """What the page of metrics says; 0 for what it does not list."""
        _, page = await self.get("/metrics")
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in page.splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name and wanted == set(filter(None, (found[2] or "").split(","))):
                return float(found[3])
        return 0
