"""What the webhook makes of the snapshots that it is given, one after another."""

from dataclasses import dataclass, field, replace

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.feed import Take
from numalign.kube.files import snapshot
from numalign.kube.pod_counts import PodCounts
from numalign.lru import Caches
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from numalign.model.node import Node, node_class
from tests.worlds import webhook as world
from tests.worlds.log import RecordedLog
from tests.worlds.notation import node
from webhook.snapshot_holder import SnapshotHolder

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)


def shown(members: dict[str, Node], **namespaces: dict[str, str]) -> Snapshot:
    return snapshot.of([world.snapshot(members, namespaces=namespaces)])


@dataclass
class Fed:
    snapshots: list[Snapshot] = field(default_factory=list)
    waiting: str | None = "something"
    seconds: float = float("inf")

    def waiting_for(self) -> str | None:
        return self.waiting

    def age(self) -> float:
        return self.seconds

    def caches(self) -> Caches:
        return {}

    def pod_counts(self) -> PodCounts:
        return PodCounts(PodReader())

    async def follow(self, take: Take) -> None:
        for each in self.snapshots:
            await take(each)


@dataclass
class Followed:
    feed: Fed = field(default_factory=Fed)
    journal: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    settled: list[Snapshot | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.holder = SnapshotHolder(
            self.feed,
            log=self.journal.log,
            registry=self.registry,
            settled=lambda: self.settled.append(self.holder.snapshot),
        )

    async def take(self, *snapshots: Snapshot) -> SnapshotHolder:
        self.feed.snapshots = list(snapshots)
        await self.holder.follow()
        return self.holder

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0


@pytest.fixture
def followed() -> Followed:
    return Followed()


async def test_a_snapshot_is_a_cache_and_the_rules_of_namespaces(followed: Followed) -> None:
    members = {"a": SMALL, "b": LARGE, "c": Node("c", zones=())}
    now = await followed.take(shown(members, team={"enforce": SINGLE}, quiet={}))

    assert [member.name for member in now.cache.nodes] == ["a", "b"]
    assert now.cache.unknown == 1
    assert now.snapshot
    assert now.snapshot.namespaces["team"] == NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)
    assert now.snapshot.namespaces["quiet"] == UNRULED
    assert now.snapshot.namespace_labels["team"] == {"numalign.io/enforce": SINGLE}
    assert followed.journal.of("snapshot.loaded")[0]["nodes"] == 2


async def test_metrics_count_nodes_classes_and_problems(followed: Followed) -> None:
    labelled = replace(SMALL, label="3402240076448895094")
    members = {"a": labelled, "b": SMALL, "c": Node("c", zones=())}
    now = await followed.take(shown(members, team={"enforce": "strictly"}))

    for name, labels, count in [
        ("nodes", {"topology": "known"}, 2), ("topology_nodes", {"source": "exporter"}, 2),
        ("nodes", {"topology": "unknown"}, 1), ("topology_nodes", {"source": "none"}, 1),
        ("classes", {}, 1), ("snapshot_problems", {}, 1),
    ]:  # fmt: skip
        assert followed.count(f"numalign_{name}", **labels) == count
    assert now.cache.classes == (node_class(SMALL),)
    assert 'numalign.io/enforce]: "strictly"' in followed.journal.of("snapshot.problem")[0]["error"]


async def test_age_is_that_of_the_feed(followed: Followed) -> None:
    assert followed.count("numalign_snapshot_age_seconds") == float("inf")
    followed.feed.seconds = 7
    assert followed.count("numalign_snapshot_age_seconds") == 7


async def test_readiness_waits_for_feed_and_first_snapshot(followed: Followed) -> None:
    assert followed.holder.waiting_for() == "something"
    followed.feed.waiting = None
    assert followed.holder.waiting_for() == "the first complete state of the cluster"
    await followed.take(shown({"n1": SMALL}), shown({"n1": SMALL, "n2": LARGE}))
    assert followed.holder.waiting_for() is None
    # It is settled once, before the first answer.
    assert followed.settled == [None]
    # A feed that fails keeps the last snapshot ready.
    followed.feed.waiting = "the API server"
    assert followed.holder.waiting_for() is None


async def test_changes_and_new_problems_are_logged_once(followed: Followed) -> None:
    short = replace(SMALL, zones=tuple(replace(zone, name="zone") for zone in SMALL.zones))
    broken, more = shown({"a": short, "b": LARGE}), shown({"a": short, "b": LARGE, "c": LARGE})
    now = await followed.take(broken, broken, more, broken)

    # One broken object does not hide the others.
    assert ([member.name for member in now.cache.nodes], now.cache.unknown) == (["b"], 1)
    assert len(followed.journal.of("snapshot.problem")) == 1
    levels = [line["level"] for line in followed.journal.of("snapshot.loaded")]
    assert levels == ["info", "debug", "info", "info"]
    await followed.take(shown({"a": SMALL}), broken)
    assert len(followed.journal.of("snapshot.problem")) == 2
