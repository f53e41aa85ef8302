"""
A shape: what nodes of one kind have in common when healthy.

Nodes of one class with the same kubelet configuration and the same taints have one shape. It keeps what
verdicts need: the largest amounts that any of them had, and the values of their labels. So a shape answers
for nodes that are not present, and errs on one side only: it may admit a pod for a node that none of them
was, never the other way.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType

from numalign.model.attributes import NO_ATTRIBUTES, OS_LABEL, Attributes, Taint
from numalign.model.constraints import Constraints, Requirement, Unmet
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import Known, Node, node_class
from numalign.model.resources import EMPTY, Resources
from numalign.shapes import new_nodes

MOST_VALUES = 8
"""The limit of distinct values of one label; a label with more (a host name) may have any."""

MOST_LABELS = 256
"""The limit of label keys of one shape; with more, it may also have any other label."""

NAMELESS = ""
"""The name of the node in a shape."""


@dataclass(frozen=True, slots=True)
class LabelValues:
    """A label among the nodes of a shape: `known` is None for any value, `always` if none lacked it."""

    known: frozenset[str] | None
    always: bool = True

    def may(self, requirement: Requirement) -> bool:
        """Return whether some node of the shape may meet a requirement on this label."""
        if self.known is None or (not self.always and requirement.allows(None)):
            return True
        return any(requirement.allows(value) for value in self.known)

    def joined(self, other: "LabelValues") -> "LabelValues":
        """Return the values among the nodes of both."""
        always = self.always and other.always
        if self.known is None or other.known is None or len(self.known | other.known) > MOST_VALUES:
            return LabelValues(None, always)
        return LabelValues(self.known | other.known, always)


ANY = LabelValues(None, always=False)
"""A label about which nothing is known."""

ABSENT = LabelValues(frozenset(), always=False)
"""A label that no node of the shape has."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What nodes of one kind have in common.

    `node` is one of them, healthy, nameless and empty, with the largest amounts that any of them had.
    `taints` are their lasting ones, in order. With `other_labels` they may have unknown labels.
    """

    node: Node
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, LabelValues] = field(default_factory=dict, hash=False)
    other_labels: bool = False
    node_class: str = field(init=False, compare=False)
    name: str = field(init=False, compare=False)
    """The unique name of the shape: the class, and a few digits of everything else."""

    always: int = field(init=False, compare=False, repr=False)
    """The number of labels that all of its nodes have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))
        object.__setattr__(self, "always", sum(values.always for values in self.labels.values()))
        object.__setattr__(self, "node_class", node_class(self.node))
        # All that distinguishes it from others of its class, the same in every process.
        options = self.node.options
        # Most shapes have none of these, and keep the names that they had before these existed.
        rare = (options.strategy, options.weights, sorted(options.unknown), sorted(options.unreleased))
        configured = (
            sorted(options.cpu),
            sorted(options.topology),
            sorted(options.gates),
            options.minor,
            *(rare if options.unreleased or options.unknown else ()),
        )
        written = repr((self.taints, configured, *traits(self.node)[1:]))
        digest = hashlib.sha256(written.encode()).hexdigest()[:8]
        object.__setattr__(self, "name", f"{self.node_class}.{digest}")

    def unmet(self, constraints: Constraints) -> Unmet | None:
        """Return why a pod may use no known node of this shape; None if it may use one."""
        return self._unmet(constraints, self._may)

    def unmet_by_new(self, constraints: Constraints) -> Unmet | None:
        """Return why a pod could use no node of this shape that is still to come; None if it could."""

        def may(requirement: Requirement) -> bool:
            key = requirement.key
            later = new_nodes.set_later(key) and key != CLASS_LABEL and key not in self.labels
            return new_nodes.varied(key) or later or self._may(requirement)

        return self._unmet(constraints, may)

    def _unmet(self, constraints: Constraints, may: Callable[[Requirement], bool]) -> Unmet | None:
        if not select(constraints, may):
            return Unmet.AFFINITY
        known = self.labels.get(OS_LABEL, ABSENT)
        if known.always and known.known is not None and not any(map(constraints.run_on, known.known)):
            return Unmet.OS
        return None if constraints.tolerate(self.taints) else Unmet.TAINT

    def _may(self, requirement: Requirement) -> bool:
        if requirement.key == CLASS_LABEL:
            return LabelValues(frozenset({self.node_class}), always=False).may(requirement)
        return self.labels.get(requirement.key, ANY if self.other_labels else ABSENT).may(requirement)

    def covers(self, node: Node) -> bool:
        """Return whether a healthy node of this kind has nothing that is not known of the shape."""
        for zone, most in zip(node.every_zone, self.node.every_zone, strict=True):
            if not (zone.capacity.within(most.capacity) and zone.allocatable.within(most.allocatable)):
                return False
        if node.totals is not None and not node.totals.within(self.node.totals or EMPTY):
            return False
        # All values have to be known, and no label may be missing that all had.
        lacking = self.always
        for key, value in node.attributes.labels.items():
            values = self.labels.get(key)
            if values is None:
                if not (self.other_labels or key == CLASS_LABEL):
                    return False
                continue
            if values.known is not None and value not in values.known:
                return False
            lacking -= values.always
        return not lacking

    def joined(self, other: "Shape") -> "Shape":
        """Return what the nodes of both have in common; raise `ValueError` for another kind of nodes."""
        if self.name != other.name:
            raise ValueError(f"{other.name} is not {self.name}")
        mine, theirs = (ANY if shape.other_labels else ABSENT for shape in (self, other))
        labels = {
            key: self.labels.get(key, mine).joined(other.labels.get(key, theirs))
            for key in {*self.labels, *other.labels}
        }
        union = shape(
            larger(self.node, other.node),
            self.taints,
            labels,
            other_labels=self.other_labels or other.other_labels,
        )
        return self if union == self else union


@dataclass(frozen=True, slots=True)
class KnownShape:
    """A shape, and how it is known: by its present `nodes`, by declaration, or from memory.

    `seen` is when its last node was present, in seconds since 1970; None if one is, or none ever was.
    `only_node` is the only node that ever had it; empty if several had, or if that is not known.
    """

    shape: Shape
    nodes: int = 0
    seen: float | None = None
    declared: bool = False
    only_node: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class UnknownNode:
    """A node without topology, from its Node object.

    `totals` is what it may allocate as a whole: for devices the larger of allocatable and capacity, because
    their plugin may be down. None if not reported. `label` is the class in its label.
    """

    name: str
    totals: Resources | None = None
    attributes: Attributes = NO_ATTRIBUTES
    label: str | None = None


def keyed(shapes: Iterable[KnownShape]) -> Mapping[str, KnownShape]:
    """Return shapes by their keys: the name, for a declared one after a number; nodes may have it, too."""
    numbers = count()
    # No name of a shape has a slash.
    return {
        f"{next(numbers):04}/{known.shape.name}" if known.declared else known.shape.name: known
        for known in shapes
    }


def shape(
    node: Node, taints: Iterable[Taint], labels: Mapping[str, LabelValues], *, other_labels: bool = False
) -> Shape:
    """Return a shape with a limited number of labels."""
    kept = dict(sorted(labels.items())[:MOST_LABELS])
    return Shape(node, tuple(taints), kept, other_labels or len(labels) > MOST_LABELS)


def of(node: Node) -> Shape:
    """Return the shape of one node, as far as that node shows it.

    The label with its class is none of its own: others write there, too, such as Karpenter, which gives every
    new node a random value.
    """
    attributes = node.attributes
    labels = {
        key: LabelValues(frozenset({value})) for key, value in attributes.labels.items() if key != CLASS_LABEL
    }
    return shape(bare(node), attributes.lasting, labels)


def bare(node: Node) -> Node:
    """Return the healthy, empty node without anything that distinguishes it from others of its kind."""
    return replace(node.in_health(), name=NAMELESS, label=None, attributes=NO_ATTRIBUTES, health=None)


def without_machine(node: Node) -> Node:
    """Return the node by its amounts and its kubelet's configuration, without a machine description."""
    if node.machine is None:
        return node
    return replace(node, known=Known.CONFIGURED, machine=None, stock=None)


def select(constraints: Constraints, may: Callable[[Requirement], bool]) -> bool:
    """Return whether some node may be selected, of which `may` says what it may meet; names aside."""
    if not all(map(may, constraints.selector)):
        return False
    # A name is that of a single node, which says nothing about others of its shape.
    return constraints.terms is None or any(
        (term.expressions or term.fields) and all(map(may, term.expressions)) for term in constraints.terms
    )


Traits = tuple[object, ...]


def traits(node: Node) -> Traits:
    """Return what matters to pods, and is neither in a node's class nor an amount."""
    costs = tuple(zone.costs for zone in node.every_zone)
    known = node.options, node.threads, node.max_zones, costs, node.totals is None, node.machine
    return *known, *sorted(node.uncertain)


def larger(one: Node, other: Node) -> Node:
    """Return a node with the larger amounts of two of one class; the rest is the first one's."""
    if one == other:
        return one
    zones = []
    for mine, its in zip(one.every_zone, other.every_zone, strict=True):
        most = mine.allocatable.most(its.allocatable)
        zones.append(replace(mine, capacity=mine.capacity.most(its.capacity), allocatable=most, free=most))
    hinted = tuple(zone for zone in zones if zone.id in one.ids)
    others = tuple(zone for zone in zones if zone.id not in one.ids)
    # Nodes that do not report totals could have anything.
    totals = None if one.totals is None or other.totals is None else one.totals.most(other.totals)
    return replace(one, zones=hinted, others=others, totals=totals)
