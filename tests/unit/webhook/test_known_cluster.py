"""What the webhook makes of the changes of a cluster."""

from dataclasses import dataclass, field, replace

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.cluster import Cluster
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files import snapshot
from numalign.kube.pod_counts import PodCounts
from numalign.lru import Caches
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from numalign.model.node import Node, node_class
from tests.worlds import webhook as world
from tests.worlds.clusters import become
from tests.worlds.log import RecordedLog
from tests.worlds.notation import node
from webhook.known_cluster import KnownCluster

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)


def shown(members: dict[str, Node], **namespaces: dict[str, str]) -> Cluster:
    return snapshot.of([world.snapshot(members, namespaces=namespaces)])


@dataclass
class Fed:
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

    async def follow(self) -> None:
        """Nothing changes but by `become`."""


@dataclass
class Followed:
    feed: Fed = field(default_factory=Fed)
    journal: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    settled: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = KnownCluster(
            Cluster(),
            self.feed,
            log=self.journal.log,
            registry=self.registry,
            settled=lambda: self.settled.append(len(self.known.cache.nodes)),
        )

    def take(self, *clusters: Cluster) -> KnownCluster:
        for each in clusters:
            become(self.known.cluster, each)
        return self.known

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0


@pytest.fixture
def followed() -> Followed:
    return Followed()


def test_a_cluster_is_a_cache_and_the_rules_of_namespaces(followed: Followed) -> None:
    members = {"a": SMALL, "b": LARGE, "c": Node("c", zones=())}
    now = followed.take(shown(members, team={"enforce": SINGLE}, quiet={}))

    assert [member.name for member in now.cache.nodes] == ["a", "b"]
    assert now.cache.unknown == 1
    assert now.cluster.namespaces["team"] == NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)
    assert now.cluster.namespaces["quiet"] == UNRULED
    assert now.cluster.namespace_labels["team"] == {"numalign.io/enforce": SINGLE}
    assert followed.journal.of("snapshot.loaded")[0]["nodes"] == 2


def test_metrics_count_nodes_classes_and_problems(followed: Followed) -> None:
    labelled = replace(SMALL, label="3402240076448895094")
    members = {"a": labelled, "b": SMALL, "c": Node("c", zones=())}
    now = followed.take(shown(members, team={"enforce": "strictly"}))

    for name, labels, count in [
        ("nodes", {"topology": "known"}, 2), ("topology_nodes", {"source": "exporter"}, 2),
        ("nodes", {"topology": "unknown"}, 1), ("topology_nodes", {"source": "none"}, 1),
        ("classes", {}, 1), ("snapshot_problems", {}, 1),
    ]:  # fmt: skip
        assert followed.count(f"numalign_{name}", **labels) == count
    assert now.cache.classes == (node_class(SMALL),)
    assert 'numalign.io/enforce]: "strictly"' in followed.journal.of("snapshot.problem")[0]["error"]


def test_age_is_that_of_the_feed(followed: Followed) -> None:
    assert followed.count("numalign_snapshot_age_seconds") == float("inf")
    followed.feed.seconds = 7
    assert followed.count("numalign_snapshot_age_seconds") == 7


def test_readiness_waits_for_the_whole_cluster(followed: Followed) -> None:
    assert followed.known.waiting_for() == "something"
    followed.feed.waiting = None
    assert followed.known.waiting_for() == "the first complete state of the cluster"
    followed.take(shown({"n1": SMALL}), shown({"n1": SMALL, "n2": LARGE}))
    assert followed.known.waiting_for() is None
    # It is settled once, after the first nodes.
    assert followed.settled == [1]
    # A feed that fails keeps what is known.
    followed.feed.waiting = "the API server"
    assert followed.known.waiting_for() is None


def test_changes_and_new_problems_are_logged_once(followed: Followed) -> None:
    short = replace(SMALL, zones=tuple(replace(zone, name="zone") for zone in SMALL.zones))
    broken, more = shown({"a": short, "b": LARGE}), shown({"a": short, "b": LARGE, "c": LARGE})
    now = followed.take(broken, broken, more, broken)

    # One broken object does not hide the others.
    assert ([member.name for member in now.cache.nodes], now.cache.unknown) == (["b"], 1)
    assert len(followed.journal.of("snapshot.problem")) == 1
    levels = [line["level"] for line in followed.journal.of("snapshot.loaded")]
    assert levels == ["info", "debug", "info", "info"]
    followed.take(shown({"a": SMALL}), broken)
    assert len(followed.journal.of("snapshot.problem")) == 2
