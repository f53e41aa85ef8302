"""Which shapes there are, and which nodes are unhealthy, as nodes come, lose devices, are replaced and go."""

import math
from dataclasses import dataclass, field, replace

import pytest

from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.node import Node, node_class
from numalign.shapes import Declared, Identity, KnownShape, LeftOut, RememberedShapes, ShapeHistory, history
from numalign.shapes.history import LOSS_SECONDS, MOST_REMEMBERED, REMEMBER_SECONDS
from numalign.shapes.shape import of, without_machine
from tests.worlds.notation import bag, machine, node, table

HOUR = 3600.0
MACHINE = Identity("u", "s", "m")
WELL = replace(node("cpu=4 gpu=4", "cpu=4 gpu=4", policy="restricted", totals="cpu=8 gpu=8"), name="a")
DOWN = replace(node("cpu=4 gpu=0", "cpu=4 gpu=0", policy="restricted", totals="cpu=8 gpu=0"), name="a")
GONE = replace(node("cpu=4", "cpu=4", policy="restricted", totals="cpu=8"), name="a")
UNCOUNTED = replace(WELL, totals=bag("cpu=8 gpu=0"))
BLUE = node_class(WELL)


@dataclass
class Cluster:
    """A history, and a clock that tests set."""

    now: float = 1e9
    remember: float = REMEMBER_SECONDS
    history: ShapeHistory = field(init=False)

    def __post_init__(self) -> None:
        self.history = ShapeHistory(remember=self.remember, wall=lambda: self.now)

    def see(self, made: Node, identity: Identity = MACHINE) -> Node:
        return self.history.update_node(made, identity=identity)

    def falls_ill(self) -> None:
        self.see(WELL)
        self.see(DOWN)

    def restarted(self) -> "Cluster":
        other = Cluster(self.now, self.remember)
        other.history.load(self.history.to_remember())
        return other

    def counts(self) -> list[tuple[str, int]]:
        return [(each.shape.node_class, each.nodes) for each in self.history.shapes()]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


ILL = [
    # what it shows                the node
    ("its plugin is down",         DOWN),
    ("its devices are not listed", GONE),
    ("only its Node has fewer",    UNCOUNTED),
    ("it was tainted as well",     replace(DOWN, attributes=Attributes(taints=(Taint("x"),)))),
]  # fmt: skip


@pytest.mark.parametrize("ill", table(ILL))
def test_node_without_its_devices_keeps_its_shape(cluster: Cluster, ill: Node) -> None:
    before, after, again = map(cluster.see, (WELL, ill, WELL))
    assert (before.health, again.health) == (None, None)
    assert after.health
    assert (after.zones, after.totals) == (ill.zones, ill.totals)
    assert (after.health.zones, after.health.totals) == (WELL.zones, WELL.totals)
    assert after.health.attributes == ill.attributes
    assert node_class(after) == BLUE


OTHERS = [
    # what it shows the node
    ("it has other zones",              node("cpu=4", policy="restricted", totals="cpu=4")),
    ("another policy",                  node("cpu=4", "cpu=4", policy="none", totals="cpu=8")),
    ("it has another device",           node("cpu=4 nic=1", "cpu=4", policy="restricted", totals="cpu=8")),
    ("only what no zone lists is gone", replace(WELL, totals=bag("cpu=8 gpu=8"))),
]  # fmt: skip


@pytest.mark.parametrize("other", table(OTHERS))
def test_any_other_difference_is_another_shape(cluster: Cluster, other: Node) -> None:
    cluster.see(replace(WELL, totals=bag("cpu=8 gpu=8 nic=3")))
    assert cluster.see(replace(other, name="a")).health is None


MACHINES = [
    # what it shows          the machine              another one
    ("another Node object",  Identity("v", "s", "m"), True),
    ("the same",             MACHINE,                 False),
    ("no identity any more", Identity(),              False),
]  # fmt: skip


@pytest.mark.parametrize(("identity", "another"), table(MACHINES))
def test_replaced_machine_is_another_node(cluster: Cluster, identity: Identity, *, another: bool) -> None:
    labelled = Attributes(Labels({"numalign.io/class": BLUE}))
    cluster.see(replace(WELL, label=BLUE, attributes=labelled))
    after = cluster.see(replace(DOWN, label=BLUE, attributes=labelled), identity)
    again = cluster.see(replace(DOWN, label=BLUE, attributes=labelled), identity)
    assert [each.health is None for each in (after, again)] == [another] * 2


LABELLED = [
    # what it shows                        the label         seen before  ill
    ("the label has its class",            BLUE,             (),      True),
    ("the label has its present class",    node_class(DOWN), (WELL,), False),
    ("its history, without a label",       None,             (WELL,), True),
    ("its history, with an unknown class", "red",            (WELL,), True),
    ("neither",                            None,             (),      False),
]  # fmt: skip


@pytest.mark.parametrize(("label", "before", "ill"), table(LABELLED))
def test_label_or_history_gives_the_former_shape(
    cluster: Cluster, label: str | None, before: tuple[Node, ...], *, ill: bool
) -> None:
    cluster.see(replace(WELL, name="another"))
    cluster.see(replace(node("cpu=1"), name="third", label=None))
    for each in before:
        cluster.see(each)
    assert (cluster.see(replace(DOWN, label=label)).health is not None) is ill


@pytest.mark.parametrize("labelled", [replace(DOWN, label=BLUE), UNCOUNTED], ids=["labelled", "grown"])
def test_new_class_makes_its_nodes_stale_once(cluster: Cluster, labelled: Node) -> None:
    steps = [cluster.see(labelled).health is None, cluster.history.pop_stale()]
    version = cluster.history.version
    cluster.see(replace(WELL, name="b"))
    assert cluster.history.version > version
    assert [*steps, cluster.history.pop_stale(), cluster.history.pop_stale()] == [True, set(), {"a"}, set()]
    assert cluster.see(labelled).health


def test_loss_is_permanent_after_a_week(cluster: Cluster) -> None:
    cluster.falls_ill()
    cluster.now += LOSS_SECONDS - 1
    cluster.history.expire()
    before = cluster.history.pop_stale()
    cluster.now += 1
    cluster.history.expire()

    assert [before, cluster.history.pop_stale()] == [set(), {"a"}]
    assert [cluster.see(DOWN).health, cluster.see(DOWN).health] == [None, None]
    assert cluster.counts() == sorted([(BLUE, 0), (node_class(DOWN), 1)])
    # What it loses from then on is a loss again.
    assert cluster.see(replace(GONE, label=node_class(DOWN))).health is None
    assert cluster.see(WELL).health is None


def test_never_healthy_node_uses_its_allocatable_for_a_week(cluster: Cluster) -> None:
    most = bag("cpu=8 gpu=8")
    first = cluster.history.update_node(DOWN, identity=MACHINE, most=most)
    shapes = cluster.counts()
    cluster.now += LOSS_SECONDS
    cluster.history.expire()
    stale = cluster.history.pop_stale()
    later = [cluster.history.update_node(DOWN, identity=MACHINE, most=most) for _ in range(2)]

    assert first.health
    assert first.health.totals == most
    # The zones of its devices are not known, so they make no shape.
    assert shapes == [(node_class(DOWN), 1)]
    assert all(each.shape.node.totals == DOWN.totals for each in cluster.history.shapes())
    assert stale == {"a"}
    assert [each.health for each in later] == [None, None]


def test_older_loss_of_another_replica_counts(cluster: Cluster) -> None:
    cluster.falls_ill()
    restarted = cluster.restarted()
    assert restarted.see(replace(DOWN, label=BLUE)).health is not None
    restarted.now += LOSS_SECONDS
    assert restarted.see(replace(DOWN, label=BLUE)).health is None
    cluster.history.load(RememberedShapes(losses={"a": cluster.now - LOSS_SECONDS, "other": 0.0}))
    assert cluster.history.pop_stale() == {"a"}
    assert cluster.see(DOWN).health is None


def test_loss_ends_with_the_healthy_node(cluster: Cluster) -> None:
    losses = []
    for made, seconds in ((WELL, 0), (DOWN, 0), (WELL, LOSS_SECONDS), (DOWN, 0)):
        cluster.see(made)
        losses.append(dict(cluster.history.to_remember().losses))
        cluster.now += seconds
    assert losses == [{}, {"a": 1e9}, {}, {"a": 1e9 + LOSS_SECONDS}]


# What is remembered.


@pytest.mark.parametrize("remember", [REMEMBER_SECONDS, HOUR, 0])
def test_shape_is_remembered_for_a_time_after_its_last_node(remember: float) -> None:
    cluster = Cluster(remember=remember)
    cluster.see(WELL)
    steps = [cluster.history.shapes()]
    cluster.history.retain_nodes(set())
    versions = []
    for seconds in (max(0.0, remember - 1), 1, 1):
        cluster.now += seconds
        steps.append(cluster.history.shapes())
        cluster.history.expire()
        versions.append(cluster.history.version)

    remembered = (KnownShape(of(WELL), seen=1e9),) if remember else ()
    assert steps == [(KnownShape(of(WELL), nodes=1),), remembered, (), ()]
    assert (versions[0] < versions[1]) is bool(remember)
    assert versions[1] == versions[2]


def test_ill_node_uses_shapes_of_other_replicas() -> None:
    before, after = Cluster(remember=0), Cluster(remember=0)
    before.see(WELL)
    after.history.load(before.history.to_remember())
    after.history.expire()
    assert after.counts() == []
    assert node_class(after.see(replace(DOWN, label=BLUE))) == BLUE


def test_remembered_shapes_survive_a_restart(cluster: Cluster) -> None:
    cluster.see(WELL)
    cluster.see(replace(node("cpu=1"), name="b"))
    cluster.history.retain_nodes({"b"})
    cluster.now += HOUR
    seen = {each.shape.node_class: each.seen for each in cluster.restarted().history.shapes()}
    # Shapes of present nodes were seen at the time of the restart.
    assert seen == {BLUE: 1e9, node_class(node("cpu=1")): 1e9 + HOUR}


def test_remembered_time_is_clamped_to_now(cluster: Cluster) -> None:
    cluster.history.load(RememberedShapes((KnownShape(of(WELL), seen=1e12), KnownShape(of(GONE), seen=0.0))))
    assert [each.seen for each in cluster.history.shapes()] == [1e9]


def test_latest_of_too_many_shapes_are_remembered(cluster: Cluster) -> None:
    many = [
        KnownShape(of(replace(WELL, max_zones=8 + at)), seen=1e9 - at) for at in range(MOST_REMEMBERED + 9)
    ]
    cluster.history.load(RememberedShapes(tuple(many)))
    known = cluster.history.shapes()
    assert {each.shape.name for each in known} == {each.shape.name for each in many[:MOST_REMEMBERED]}


def test_node_of_many_shapes_evicts_only_its_own(cluster: Cluster) -> None:
    cluster.see(replace(WELL, name="b"))
    cluster.history.retain_nodes(frozenset())
    for at in range(MOST_REMEMBERED + 9):
        cluster.now += 1
        cluster.see(replace(GONE, max_zones=9 + at))
    cluster.history.retain_nodes(frozenset())
    cluster.history.expire()
    for known in (cluster.history, cluster.restarted().history):
        assert of(WELL).name in {each.shape.name for each in known.shapes()}
        assert len(known.shapes()) == MOST_REMEMBERED
        assert known.left_out == LeftOut(1e9 + 11, frozenset())


def test_left_out_shapes_are_forgotten_in_time(cluster: Cluster) -> None:
    cluster.history.load(RememberedShapes(left_out=LeftOut(math.inf, frozenset("a"))))
    cluster.history.load(RememberedShapes(left_out=LeftOut(0.0, frozenset("b"))))
    version = cluster.history.version
    assert cluster.history.left_out == LeftOut(1e9, frozenset("ab"))
    cluster.now += REMEMBER_SECONDS - 1
    cluster.history.expire()
    assert cluster.history.left_out is not None
    cluster.now += 1
    cluster.history.expire()
    assert cluster.history.left_out is None
    assert cluster.history.version > version


HAD = [
    # what it shows                         the nodes that had a shape, the only one
    ("one",                          ["a"],           "a"),
    ("two",                          ["a", "b"],      ""),
    ("two, and the first one again", ["a", "b", "a"], ""),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "only"), table(HAD))
def test_only_node_of_a_shape_is_known(cluster: Cluster, nodes: list[str], only: str) -> None:
    for name in nodes:
        cluster.see(replace(WELL, name=name))
        cluster.history.retain_nodes(frozenset())
    for known in (cluster.history, cluster.restarted().history):
        assert [each.only_node for each in known.shapes()] == [only]


def described_node(sockets: tuple[int, int], devices: str = "gpu=0,1") -> Node:
    """A node with a known machine; of one class with any sockets."""
    made = machine("cpu=0-3", "cpu=4-7", sockets=sockets, reserved="0", devices=devices, policy="restricted")
    return replace(made, name="a")


DESCRIBED = tuple(described_node((0, at)) for at in range(4))


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the machines of two shapes are remembered."""
    monkeypatch.setattr(history, "MOST_MACHINES", 2)


@pytest.mark.usefixtures("two_machines")
def test_machines_beyond_the_limit_become_amounts(cluster: Cluster) -> None:
    for each in DESCRIBED:
        cluster.see(each)
        cluster.now += 1
    before = cluster.history.shapes()
    cluster.history.retain_nodes(set())

    plain = of(without_machine(DESCRIBED[0]))
    assert {each.shape.name: (each.nodes, each.seen) for each in before} == {
        plain.name: (0, 1e9 + 1),
        of(DESCRIBED[1]).name: (0, 1e9 + 2),
        of(DESCRIBED[2]).name: (0, 1e9 + 3),
        of(DESCRIBED[3]).name: (1, None),
    }
    assert {each.shape.name: each.seen for each in cluster.history.shapes()} == {
        plain.name: 1e9 + 2,
        of(DESCRIBED[2]).name: 1e9 + 3,
        of(DESCRIBED[3]).name: 1e9 + 4,
    }
    assert {each.shape for each in cluster.restarted().history.shapes()} == {
        plain,
        of(DESCRIBED[2]),
        of(DESCRIBED[3]),
    }


@pytest.mark.usefixtures("two_machines")
def test_present_machine_is_never_evicted(cluster: Cluster) -> None:
    cluster.see(replace(DESCRIBED[0], name="b"))
    for each in (*DESCRIBED, *DESCRIBED):
        cluster.see(each)
    after = cluster.see(described_node((0, 0), "gpu=0"))
    labelled = cluster.see(replace(after, label=node_class(DESCRIBED[0]), health=None))
    assert labelled.health
    assert labelled.health.machine == DESCRIBED[0].machine
    assert {each.nodes for each in cluster.history.shapes() if each.shape == of(DESCRIBED[0])} == {2}


def test_illness_needs_no_remembered_machine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_MACHINES", 0)
    cluster.see(DESCRIBED[0])
    cluster.history.retain_nodes(set())
    after = cluster.see(replace(described_node((0, 0), "gpu=0"), label=node_class(DESCRIBED[0])))
    assert after.health == replace(DESCRIBED[0], label=after.label)


def test_declared_shapes_are_last_and_can_be_withdrawn(cluster: Cluster) -> None:
    cluster.see(GONE)
    version = cluster.history.version
    cluster.history.declare(Declared((of(WELL),)))
    declared = cluster.history.version
    cluster.history.declare(Declared((of(WELL),)))

    assert version < declared == cluster.history.version
    assert cluster.history.shapes()[1] == KnownShape(of(WELL), declared=True)
    # A declared shape gives a label its meaning.
    assert cluster.see(replace(GONE, label=BLUE)).health
    cluster.history.declare(Declared())
    assert not any(each.declared for each in cluster.history.shapes())
    assert not any(each.declared for each in cluster.history.to_remember().shapes)


def test_only_news_raises_the_version(cluster: Cluster) -> None:
    versions = []
    for name, host in (("a", "a"), ("b", "a"), ("c", "c")):
        cluster.see(replace(WELL, name=name, attributes=Attributes(Labels({"host": host}))))
        versions.append(cluster.history.version)
    assert versions[0] == versions[1] < versions[2]
