"""
The shapes of a cluster: those of present nodes, of earlier nodes, and declared ones.

Nodes are updated one by one, and are returned with their health (`Node.health`). A node that lacks devices
counts as degraded as long as something shows what it was: its class label, its earlier state, or the capacity
in its Node object. A machine that was replaced under the same name is another node; and a loss that lasts
longer than `LOSS_SECONDS` is real, because a repair would be finished by then.

Times are seconds since 1970, because what is remembered here outlives the process.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from numalign.model.attributes import Taint
from numalign.model.node import Node, node_class
from numalign.model.resources import Resources
from numalign.shapes.growable_pools import Declared, GrowablePools
from numalign.shapes.health import with_all_devices, with_devices_of, with_whole_machine
from numalign.shapes.keeping import LeftOut, in_turn, left_out
from numalign.shapes.shape import KnownShape, Shape, Traits, keyed, larger, of, traits, without_machine

REMEMBER_SECONDS = 30 * 86400.0
"""How long a shape is remembered after its last node is gone."""

LOSS_SECONDS = 7 * 86400.0
"""After how long a loss counts as permanent."""

MOST_REMEMBERED = 512
"""The limit of remembered shapes without nodes (`keeping.in_turn`)."""

MOST_MACHINES = 128
"""The limit of machines of shapes without nodes, none of them large; others are known by amounts."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The uid of a Node, and `systemUUID` and `machineID` as its kubelet reports them; empty if not known."""

    uid: str = ""
    system: str = ""
    machine: str = ""

    def differs(self, other: "Identity") -> bool:
        """Return whether any field known for both differs."""
        pairs = ((self.uid, other.uid), (self.system, other.system), (self.machine, other.machine))
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


UNKNOWN = Identity()
"""Of a machine without a known identity."""


@dataclass(frozen=True, slots=True)
class RememberedShapes:
    """What outlives a process: shapes, those left out, and since when nodes are degraded, by name."""

    shapes: tuple[KnownShape, ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class _NodeRecord:
    """The last state of a node with its health, its own class without that, and since when it is degraded.

    The node was of none of the `disbelieved` classes, whatever its label or its history say.
    """

    own: str
    node: Node
    shape: Shape
    identity: Identity
    degraded_since: float | None = None
    disbelieved: frozenset[str] = frozenset()


class ShapeHistory:
    """The shapes of a cluster. Changed in place.

    `remember` is for how many seconds a shape without nodes is known; the healthy state of its nodes is kept
    for `LOSS_SECONDS` in any case, because a degraded one may be present. `version` grows whenever shapes
    come, go or change, or nodes become stale; the number of nodes of a shape does not matter. `left_out` is
    what is known of earlier shapes that are not kept.
    """

    def __init__(self, *, remember: float = REMEMBER_SECONDS, wall: Callable[[], float]) -> None:
        self.version = 0
        self.left_out: LeftOut | None = None
        self._remember = remember
        self._wall = wall
        self._nodes: dict[str, _NodeRecord] = {}
        self._degraded_since: dict[str, float] = {}
        self._shapes: dict[str, Shape] = {}
        self._counts = Counter[str]()
        self._only_nodes: dict[str, str] = {}
        self._last_seen: dict[str, float] = {}
        self._machines: dict[str, None] = {}
        self._over: AbstractSet[str] = frozenset()
        self._declared = Declared()
        self._losses: dict[str, float] = {}
        self._healthy: dict[str, Node] = {}
        self._names: dict[tuple[str, tuple[Taint, ...], Traits], str] = {}
        self._unknown_labels: dict[str, str] = {}
        self._stale: set[str] = set()
        self._changed: set[str] = set()

    # Updates.

    def update_node(self, node: Node, *, identity: Identity, most: Resources | None = None) -> Node:
        """Add or update a present node, and return it with its health.

        `identity` is that of the machine. `most` is the allocatable amounts of its Node object, but with all
        devices of its capacity.
        """
        before = self._nodes.get(node.name)
        self._stale.discard(node.name)
        record = self._nodes[node.name] = self._record(node, identity, before, most)
        shape = record.shape.name
        if before is None or before.shape.name != shape:
            self._note_node(shape, node.name)
            self._changed.add(shape)
            self._counts[shape] += 1
            self._last_seen.pop(shape, None)
            self._machines.pop(shape, None)
            if before:
                self._leave(before.shape.name)
        self._degraded_since.pop(node.name, None)
        if record.degraded_since is not None:
            self._degraded_since[node.name] = record.degraded_since
        return record.node

    def retain_nodes(self, names: AbstractSet[str]) -> None:
        """Remove all nodes with a topology except these."""
        for name in sorted(self._nodes.keys() - names):
            self.remove_node(name)

    def remove_node(self, name: str) -> None:
        """Remove a node with a topology, if it is known."""
        record = self._nodes.pop(name, None)
        if record is not None:
            self._leave(record.shape.name)
            self._degraded_since.pop(name, None)
            self._unknown_labels.pop(name, None)

    def load(self, memory: RememberedShapes) -> None:
        """Load remembered shapes; nodes that they concern become stale."""
        for known in memory.shapes:
            name = known.shape.name
            self._learn(known.shape)
            self._note_node(name, known.only_node)
            if not self._counts[name]:
                self._note_seen(name, min(known.seen or 0.0, self._wall()))
        if memory.left_out:
            seen = min(memory.left_out.seen, self._wall())
            self._leave_out(replace(memory.left_out, seen=seen).joined(self.left_out))
        self._losses = dict(memory.losses)
        self._mark_stale(
            {name for name, since in self._degraded_since.items() if self._losses.get(name, since) < since}
        )
        self._forget()

    @property
    def pools(self) -> GrowablePools:
        """The pools that may grow, as declared."""
        return self._declared.pools

    def declare(self, declared: Declared) -> None:
        """Replace what is declared."""
        if declared != self._declared:
            before, self._declared = self._declared, declared
            self._changed |= _declared(before).keys() | _declared(declared).keys()
            self.version += 1
            for shape in declared.shapes:
                self._learn_health(shape)

    def expire(self) -> None:
        """Forget expired shapes, and accept expired losses as permanent."""
        self._forget()
        if self.left_out and self._wall() - self.left_out.seen >= self._remember:
            self._leave_out(None)
        before, self._over = self._over, frozenset(filter(self._is_over, self._last_seen))
        if self._over != before:
            self._changed |= self._over ^ before
            self.version += 1
        # Thousands may be degraded, and this is called many times a second.
        real = self._wall() - LOSS_SECONDS
        self._mark_stale({name for name, since in self._degraded_since.items() if since <= real})

    # Results.

    def pop_stale(self) -> frozenset[str]:
        """Return the names of nodes whose health has to be updated, each only once."""
        stale, self._stale = frozenset(self._stale & self._nodes.keys()), set()
        return stale

    def shapes(self) -> tuple[KnownShape, ...]:
        """Return all shapes, by name, the declared ones last."""
        return tuple(self.keyed().values())

    def keyed(self) -> Mapping[str, KnownShape]:
        """Return the same by their keys: the name, for a declared shape after a number."""
        present = {name: known for name in sorted(self._shapes) if (known := self._known(name))}
        return {**present, **_declared(self._declared)}

    def pop_changed(self) -> Mapping[str, KnownShape | None]:
        """Return by their keys the shapes that have changed since the last time, None for those gone."""
        if not self._changed:
            return {}
        changed, self._changed, declared = self._changed, set(), _declared(self._declared)
        return {key: declared.get(key) or self._known(key) for key in sorted(changed)}

    def _known(self, name: str) -> KnownShape | None:
        shape, count = self._shapes.get(name), self._counts[name]
        if shape is None or not (count or not self._is_over(name)):
            return None
        seen = None if count else self._last_seen[name]
        return KnownShape(shape, count, seen, only_node=self._only_nodes[name])

    def to_remember(self) -> RememberedShapes:
        """Return what should outlive the process; shapes with nodes count as seen just now."""
        now = self._wall()
        shapes = (known for known in self.shapes() if not known.declared)
        return RememberedShapes(
            tuple(
                replace(known, nodes=0, seen=now if known.seen is None else known.seen) for known in shapes
            ),
            dict(sorted(self._degraded_since.items())),
            self.left_out,
        )

    # Health.

    def _record(
        self, node: Node, identity: Identity, before: _NodeRecord | None, most: Resources | None
    ) -> _NodeRecord:
        own = node_class(node)
        disbelieved = before.disbelieved if before and before.own == own else frozenset[str]()
        if before and before.identity.differs(identity):
            before, disbelieved = None, frozenset({node.label or ""})
            self._losses.pop(node.name, None)
        # The classes that it may have had, the likeliest first. A label takes precedence over earlier states,
        # because its author knows more. One with the current class leaves nothing to guess, and one with an
        # unknown class says nothing.
        pasts = list[str]()
        self._unknown_labels.pop(node.name, None)
        if node.label and node.label not in self._healthy:
            self._unknown_labels[node.name] = node.label
        elif node.label and node.label != own:
            pasts.append(node.label)
        if before and own not in (node.label, before.shape.node_class):
            pasts.append(before.shape.node_class)
        # The class does not show what the Node as a whole lacks.
        pasts = [name for name in (*pasts, own) if name not in disbelieved]
        models = (self._healthy[name] for name in pasts if name in self._healthy)
        kept = healthy = next(filter(None, (with_devices_of(node, model) for model in models)), None)
        if healthy is None and own not in disbelieved:
            kept = with_whole_machine(node)
            healthy = kept or with_all_devices(node, most)
        degraded_since = None
        if healthy:
            now = self._wall()
            since = before.degraded_since if before and before.degraded_since is not None else now
            degraded_since = min(since, self._losses.get(node.name, now))
            if now - degraded_since >= LOSS_SECONDS:
                kept, healthy, degraded_since, disbelieved = None, None, None, disbelieved.union(pasts)
        if degraded_since is None:
            self._losses.pop(node.name, None)
        diagnosed = replace(node, health=healthy) if healthy else node
        # The zones of its healthy devices are unknown in that case, so no shape is made of that state.
        shape = self._shape_of(diagnosed if kept else node, own, before)
        return _NodeRecord(own, diagnosed, shape, identity, degraded_since, disbelieved)

    # Shapes.

    def _shape_of(self, node: Node, own: str, before: _NodeRecord | None) -> Shape:
        """Return the shape of a node: the known one, if that covers all that this node shows."""
        if before and before.node == node:
            return before.shape
        # Nearly always an earlier node of the same kind has shown all of it.
        healthy = node.health or node
        kind = (node_class(healthy) if node.health else own, node.attributes.lasting, traits(healthy))
        shape = self._shapes.get(self._names.get(kind, ""))
        if shape and shape.covers(healthy):
            return shape
        shape = self._learn(of(node))
        self._names[kind] = shape.name
        return shape

    def _learn(self, shape: Shape) -> Shape:
        """Store what is new in a shape, and return all that is known of it."""
        before = self._shapes.get(shape.name)
        after = before.joined(shape) if before else shape
        if after is not before:
            self._shapes[shape.name] = after
            self._changed.add(shape.name)
            self.version += 1
            self._learn_health(after)
        return after

    def _learn_health(self, shape: Shape) -> None:
        name, before = shape.node_class, self._healthy.get(shape.node_class)
        # A described machine says best on which zones devices are.
        pair = (before or shape.node, shape.node)
        after = self._healthy[name] = larger(*(pair if pair[0].machine else reversed(pair)))
        if before is None:
            self._mark_stale({node for node, label in self._unknown_labels.items() if label == name})
        elif with_devices_of(before, after):
            # The healthy state known so far had less as a whole.
            self._mark_stale({node for node, record in self._nodes.items() if record.own == name})

    def _mark_stale(self, names: AbstractSet[str]) -> None:
        if not names <= self._stale:
            self._stale |= names
            self.version += 1

    def _leave(self, name: str) -> None:
        self._changed.add(name)
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]
            self._note_seen(name, self._wall())

    def _note_node(self, name: str, node: str) -> None:
        """Note that a node has a shape, or with an empty name that several have."""
        self._only_nodes[name] = node if self._only_nodes.get(name, node) == node else ""

    def _leave_out(self, left_out: LeftOut | None) -> None:
        before, self.left_out = self.left_out, left_out
        # That they were seen again changes no answer.
        if (before and before.devices, before is None) != (left_out and left_out.devices, left_out is None):
            self.version += 1

    def _note_seen(self, name: str, seen: float) -> None:
        """Remember a shape without nodes; if machines take too much memory, drop the first ones."""
        self._changed.add(name)
        self._last_seen[name] = max(self._last_seen.get(name, 0.0), seen)
        machine = self._shapes[name].node.machine
        if machine:
            self._machines.setdefault(name)
            if machine.large:
                self._drop_machine(name)
            elif len(self._machines) > MOST_MACHINES:
                self._drop_machine(next(iter(self._machines)))

    def _drop_machine(self, name: str) -> None:
        """Reduce a shape without nodes to its amounts, like shapes that outlive the process."""
        del self._machines[name]
        self._changed.add(name)
        shape, seen = self._shapes.pop(name), self._last_seen.pop(name)
        node = self._only_nodes.pop(name)
        for kind in [kind for kind, known in self._names.items() if known == name]:
            del self._names[kind]
        healthy = self._healthy[shape.node_class]
        if healthy.machine == shape.node.machine:
            self._healthy[shape.node_class] = without_machine(healthy)
            for other in self._shapes.values():
                if other.node_class == shape.node_class:
                    self._learn_health(other)
        plain = self._learn(replace(shape, node=without_machine(shape.node)))
        self._note_node(plain.name, node)
        if not self._counts[plain.name]:
            self._note_seen(plain.name, seen)
        self.version += 1

    def _is_over(self, name: str) -> bool:
        return self._wall() - self._last_seen[name] >= self._remember

    def _forget(self) -> None:
        """Remove shapes without nodes beyond the limit, and those that no degraded node can need any more."""
        since = self._wall() - max(self._remember, LOSS_SECONDS)
        gone = [name for name, seen in self._last_seen.items() if seen <= since]
        if len(self._last_seen) - len(gone) > MOST_REMEMBERED:
            absent = (
                KnownShape(self._shapes[name], seen=seen, only_node=self._only_nodes[name])
                for name, seen in self._last_seen.items()
                if seen > since
            )
            spare = in_turn(absent)[MOST_REMEMBERED:]
            self._leave_out(left_out(spare, self.left_out))
            gone += [known.shape.name for known in spare]
        for name in gone:
            del self._last_seen[name], self._shapes[name], self._only_nodes[name]
            self._machines.pop(name, None)
        if gone:
            self._changed.update(gone)
            self.version += 1
            self._names = {kind: name for kind, name in self._names.items() if name in self._shapes}
            kept = {shape.node_class for shape in (*self._shapes.values(), *self._declared.shapes)}
            self._healthy = {name: node for name, node in self._healthy.items() if name in kept}


def _declared(declared: Declared) -> Mapping[str, KnownShape]:
    return keyed(KnownShape(shape, declared=True) for shape in declared.shapes)
