"""
Laws of the map: whose names show, and that replicas come to where the scorer would place them.

Everything that tenants write is marked, so that whatever of it slips into a view is seen, in its values and
in its JSON.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson
import yaml
from hypothesis import event, example, given
from hypothesis import strategies as st

from numalign.kube.decode import placements
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.map.json_forms import fleet_json, node_json, pod_json, what_if_json
from numalign.map.state import MapState
from numalign.map.views import FleetQuery, NodeView
from numalign.map.what_if import WhatIf
from numalign.model.node import Node
from numalign.model.resources import Resources
from tests.worlds.notation import bag, node
from tests.worlds.objects import all_visible
from tests.worlds.scorer import SINGLE, Raw, Scorer, on, raw, running, uid

MARK = "marked"
HIDDEN, OPEN = f"{MARK}-namespace", "open"

MEMBERS: Mapping[str, Node] = {
    "a": node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE),
    "b": node("cpu=8 mem=16Gi gpu=2", "cpu=4 mem=16Gi", policy="best-effort"),
}
SIZES = (
    "cpu=4 mem=1Gi gpu=1", "cpu=1 mem=1Gi", "cpu=16 mem=1Gi gpu=4", "cpu=0.5", "cpu=2 mem=4Gi|cpu=1 mem=1Gi"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod of somebody: where it is, what it asks, what stands on it, and what its agent says of it."""

    node: str
    size: str
    namespace: str
    policy: str | None
    record: Sequence[Raw] | None
    observed: Mapping[tuple[str, ...], Resources] | None
    leaving: bool


def recorded(zone: str = "node-0", *others: str, **amount: str) -> list[Raw]:
    return [{"zones": [zone, *others], "amount": amount}]


RECORDS = [
    None,
    recorded(**{"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}),
    recorded(f"{MARK}-zone", cpu="4"),
    recorded(**{f"{MARK}.com/resource": "4"}),
    recorded("node-0", "node-1", memory="1Gi"),
]
BOTH: Mapping[tuple[str, ...], Resources] = {(f"node-{at}",): bag("cpu=8 gpu=2") for at in (0, 1)}
OBSERVED = [None, {}, {("node-0",): bag("cpu=4 mem=1Gi gpu=1")}, BOTH]
TENANTS = st.builds(
    Tenant,
    node=st.sampled_from([*MEMBERS, ""]),
    size=st.sampled_from(SIZES),
    namespace=st.sampled_from([HIDDEN, HIDDEN, OPEN]),
    policy=st.sampled_from([SINGLE, "best-effort", None, f"{MARK}-policy"]),
    record=st.sampled_from(RECORDS),
    observed=st.sampled_from(OBSERVED),
    leaving=st.booleans(),
)

SPREAD = Tenant("a", SIZES[2], HIDDEN, SINGLE, record=None, observed=BOTH, leaving=False)
"""Of one that is misaligned it is told which container is."""


def written(tenant: Tenant, number: int) -> Raw:
    """The pod as it stands on the wire, with a mark on everything by which it could be told apart."""
    owner = {key: f"{MARK}-owner-{key}" for key in ("kind", "name", "uid")}
    made = raw(
        tenant.size,
        name=f"{MARK}-{number}",
        policy=tenant.policy,
        annotations={f"{MARK}.com/note": MARK},
        namespace=tenant.namespace,
        uid=f"{MARK}-uid-{number}",
        ownerReferences=[{**owner, "apiVersion": f"{MARK}.com/v1", "controller": True}],
        labels={MARK: MARK},
        deletionTimestamp="2027-01-15T08:00:00Z" if tenant.leaving else None,
    )
    for container in made["spec"]["containers"]:
        container["name"] = f"{MARK}-{container['name']}"
    return running(on(tenant.node, made, record=tenant.record)) if tenant.node else made


async def populated(tenants: Sequence[Tenant]) -> MapState:
    """The map of a cluster with these pods."""
    scorer = Scorer()
    placements_of: dict[str, dict[str, ObservedPlacement]] = {name: {} for name in MEMBERS}
    for number, tenant in enumerate(tenants):
        if tenant.node and tenant.observed is not None:
            placements_of[tenant.node][f"{MARK}-uid-{number}"] = ObservedPlacement(tenant.observed, 0)
    await scorer.know(MEMBERS, unknown=["bare"], placements=placements_of)
    scorer.see(*(written(tenant, number) for number, tenant in enumerate(tenants)))
    return MapState(scorer.state)


async def views(shown: MapState, visible: Callable[[str], bool]) -> list[tuple[object, object]]:
    """Every view of a cluster that somebody may have, and its JSON."""
    fleet = await shown.fleet(FleetQuery())
    every: list[tuple[object, object]] = [(fleet, fleet_json(fleet))]
    for name in MEMBERS:
        made = await shown.node(name, visible)
        assert made
        every.append((made, node_json(made)))
    for pod in [*shown.state.pods.values()]:
        seen = await shown.pod(pod.namespace, pod.name, visible)
        every += [(seen, pod_json(seen))] if seen else []
    result = await WhatIf(shown).ask(
        yaml.dump(raw(SIZES[0]), Dumper=yaml.CSafeDumper).encode(), visible=visible, replicas=2
    )
    return [*every, (result, what_if_json(result))]


@given(tenants=st.lists(TENANTS, max_size=6))
@example(tenants=[SPREAD])
def test_without_namespaces_no_name_is_shown(tenants: list[Tenant]) -> None:
    shown = asyncio.run(populated(tenants))

    for view, form in asyncio.run(views(shown, lambda _: False)):
        assert MARK not in repr(view)
        assert MARK.encode() not in orjson.dumps(form)


@given(tenants=st.lists(TENANTS, max_size=6))
def test_with_one_namespace_no_other_name_is_shown(tenants: list[Tenant]) -> None:
    shown = asyncio.run(populated(tenants))

    for view, form in asyncio.run(views(shown, lambda namespace: namespace == OPEN)):
        assert HIDDEN not in repr(view)
        assert HIDDEN.encode() not in orjson.dumps(form)
    hidden = {number for number, tenant in enumerate(tenants) if tenant.namespace == HIDDEN}
    for view, _ in asyncio.run(views(shown, lambda namespace: namespace == OPEN)):
        seen = {pod.uid for pod in view.pods} if isinstance(view, NodeView) else set()
        assert not seen & {f"{MARK}-uid-{number}" for number in hidden}


@given(tenants=st.lists(TENANTS, max_size=6))
def test_hidden_pods_hold_what_they_hold(tenants: list[Tenant]) -> None:
    shown = asyncio.run(populated(tenants))

    for name in MEMBERS:
        everything = asyncio.run(shown.node(name, all_visible))
        nothing = asyncio.run(shown.node(name, lambda _: False))
        assert everything
        assert nothing
        event(f"{len(everything.pods)} pods")
        assert sorted(map(_zones_of, everything.pods)) == sorted(map(_zones_of, nothing.pods))
        assert everything.tile == nothing.tile
        assert nothing.hidden == len(nothing.pods)


def _zones_of(pod: object) -> str:
    assert hasattr(pod, "held")
    return repr(pod.held)


def test_a_view_with_all_namespaces_has_the_marks() -> None:
    """Otherwise the laws above would say nothing."""
    tenant = Tenant("a", SIZES[0], HIDDEN, SINGLE, None, None, leaving=False)

    shown = asyncio.run(populated([tenant]))
    marked = [MARK in repr(view) for view, _ in asyncio.run(views(shown, all_visible))]

    # Neither the fleet, nor the node without pods, nor the answer to a question.
    assert marked == [False, True, False, True, False]


# Replicas.


Occupant = tuple[str, str]
"""The names of a node and of a zone that a pod is in."""


def occupied(fleet: Mapping[str, Node], occupants: Sequence[Occupant]) -> Scorer:
    """A scorer that knows these nodes, with a small pod for each of the occupants that it has a node for."""
    scorer = Scorer()
    asyncio.run(scorer.know(fleet))
    for number, (name, zone) in enumerate(occupants):
        record = [{"zones": [zone], "amount": {"cpu": "2", "memory": "1Gi"}}]
        small = raw("cpu=2 mem=1Gi", name=f"small{number}", policy=None)
        scorer.see(*([running(on(name, small, record=record))] if name in fleet else []))
    return scorer


def placed_by_the_scorer(scorer: Scorer, made: Raw, most: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where so many pods come to, each on its node before the next one is asked about."""
    names = sorted(scorer.reservations.node_names())
    for number in range(most):
        metadata = {**made["metadata"], "name": f"p{number}", "uid": uid(f"p{number}")}
        replica = {**made, "metadata": metadata}
        pending = scorer.subject(replica)
        fit = [
            name
            for name in scorer.nodes.filtered(names, pending)[0].fit
            if name not in scorer.nodes.not_eligible(names, pending)
        ]
        batch = scorer.nodes.batch(fit, pending)
        ranks = scorer.context.ranker.ranks(batch, scorer.state.labels, opted_out=pending.opted_out)
        best = ranks.best(fit)
        if best is None:
            return
        (answer,) = scorer.nodes.of([fit[best]], pending)
        assert answer.prediction
        zones = answer.prediction.held or {}
        scorer.see(running(on(fit[best], replica, record=placements.render_held(zones))))
        yield fit[best], tuple(sorted({zone for zones in zones for zone in zones}))


SMALL_ZONE = "cpu=4 mem=4Gi gpu=1"
HOSTS = [
    *MEMBERS.values(),
    node("cpu=8 mem=16Gi gpu=2", policy="restricted"),
    node(SMALL_ZONE, SMALL_ZONE, "cpu=4 mem=4Gi", policy="restricted", scope="pod"),
    node("cpu=16 mem=64Gi gpu=4", policy="none"),
]
FLEETS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(HOSTS), max_size=4)
OCCUPANTS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["node-0", "node-1"])), max_size=6)


@given(fleet=FLEETS, occupants=OCCUPANTS, size=st.sampled_from(SIZES[:3]), most=st.integers(1, 12))
@example(
    fleet={"a": MEMBERS["a"], "b": MEMBERS["a"]},
    occupants=[("a", "node-0"), ("b", "node-0")],
    size=SIZES[0],
    most=4,
)
def test_replicas_come_to_where_the_scorer_would_place_them(
    fleet: dict[str, Node], occupants: list[Occupant], size: str, most: int
) -> None:
    made = raw(size)
    question = WhatIf(MapState(occupied(fleet, occupants).state))

    result = asyncio.run(
        question.ask(yaml.dump(made, Dumper=yaml.CSafeDumper).encode(), visible=all_visible, replicas=most)
    )

    event(f"{result.fit_count} of {most}")
    expected = [*placed_by_the_scorer(occupied(fleet, occupants), made, most)]
    assert [(placed.node, placed.zones) for placed in result.placed] == expected
