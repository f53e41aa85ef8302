"""A pod that a controller pinned has its zones for everybody, and who forges that keeps nothing for long."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.ledger.model import Source
from numalign.model.intent import PINNED_AT, PLACEMENT_GATE
from numalign.runtime.clock import SKEW_SECONDS
from numalign.scheduling.pinned_pods import PIN_SECONDS
from tests.worlds.notation import table
from tests.worlds.scorer import EMPTY, FOUR, HALF, NOW, SMALL, TEAM, Raw, Scorer, on, raw, uid

NEW = "2027-01-15T07:59:58Z"
"""When pods here are created: two seconds before the tests begin."""

LONG_AGO = "2027-01-15T07:00:00Z"

GATED = {"gate": "enabled"}
OTHER_ZONE = [{"zones": ["node-1"], "amount": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}}]


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pinned(  # noqa: PLR0913  one keyword for each fact of a pod
    node: str = "a",
    *,
    when: str = at(-1),
    name: str = "web",
    gates: tuple[str, ...] = (),
    request: str = FOUR,
    created: str = NEW,
) -> Raw:
    """A pod that was pinned to a node, as the controller writes it."""
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = {"affinity": affinity, "schedulingGates": [{"name": gate} for gate in gates]}
    return raw(request, name=name, annotations={PINNED_AT: when}, spec=spec, creationTimestamp=created)


def recorded(made: Raw, record: object) -> Raw:
    [written] = [on("nowhere", made, record=record)]  # type: ignore[arg-type]
    return {**made, "metadata": written["metadata"]}


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY, "small": SMALL}, **{TEAM: GATED})
    return made


async def test_pin_reserves_its_record_until_bound(scorer: Scorer) -> None:
    scorer.see(recorded(pinned(), OTHER_ZONE))
    assert scorer.kept() == {"web": "a"}
    reserved = scorer.reservations.assigned_pod(uid("web"))
    assert reserved
    assert reserved.record
    assert (reserved.unconfirmed, reserved.record.source) == (True, Source.RECORDED)
    assert {zone for zones in reserved.record.held for zone in zones} == {"node-1"}
    scorer.see(on("a", recorded(pinned(), OTHER_ZONE)))
    assert scorer.kept() == {}
    assert scorer.reservations.node_of(uid("web")) == "a"


@pytest.mark.parametrize("seconds", [-2 - SKEW_SECONDS, SKEW_SECONDS])
async def test_pin_from_before_a_restart_tolerates_clock_skew(scorer: Scorer, seconds: float) -> None:
    """Its creation, two seconds before the tests begin, is written by the clock of an API server."""
    scorer.see(pinned(when=at(seconds)))
    assert scorer.kept() == {"web": "a"}


@given(pinned_at=st.integers(-(10**6), 10**6), created=st.integers(-(10**6), 10**6))
async def test_observed_pin_ignores_all_other_clocks(pinned_at: int, created: int) -> None:
    scorer, when, born = Scorer(), at(pinned_at), at(created)
    await scorer.know({"a": EMPTY}, **{TEAM: GATED})
    scorer.see(pinned(when=when, created=born, gates=(PLACEMENT_GATE,)))
    scorer.see(pinned(when=when, created=born))
    assert scorer.kept() == {"web": "a"}
    scorer.time.seconds += PIN_SECONDS
    scorer.state.expire()
    assert scorer.kept() == {}


@pytest.mark.parametrize("made", table([
    ("too long ago",                    pinned(when=at(-SKEW_SECONDS - PIN_SECONDS), created=LONG_AGO)),
    ("in the future",                   pinned(when=at(SKEW_SECONDS + 2))),
    ("before it was created",           pinned(when=at(-SKEW_SECONDS - 5))),
    ("no time at all",                  pinned(when="yesterday")),
    ("behind a gate",                   pinned(gates=(PLACEMENT_GATE,))),
    ("to a node that cannot take it",   pinned("small")),
]))  # fmt: skip
async def test_a_pin_is_not_believed(scorer: Scorer, made: Raw) -> None:
    scorer.see(recorded(made, HALF))
    assert scorer.kept() == {}


@pytest.mark.parametrize(("rules", "kept"), [(GATED, {"web": "a"}), ({}, {})], ids=["gates", "no gates"])
async def test_pin_is_checked_again_with_a_new_snapshot(rules: dict[str, str], kept: dict[str, str]) -> None:
    made = Scorer()
    made.see(pinned())
    assert made.kept() == {}
    await made.know({"a": EMPTY}, **{TEAM: rules})
    assert made.kept() == kept


async def test_pin_keeps_an_existing_reservation(scorer: Scorer) -> None:
    scorer.see(raw(FOUR, creationTimestamp=NEW))
    before = scorer.reserve(raw(FOUR, creationTimestamp=NEW), "a")
    scorer.see(recorded(pinned(), OTHER_ZONE))
    assert scorer.reservations.assigned_pod(uid("web")) == before


async def test_pin_expires_or_goes_with_its_pod_for_good(scorer: Scorer) -> None:
    scorer.see(pinned(), pinned(name="gone", request="cpu=1 mem=1Gi"))
    scorer.lose("gone")
    kept = [scorer.kept()]
    for seconds in (PIN_SECONDS - 2, 2):
        scorer.time.seconds += seconds
        scorer.state.expire()
        kept.append(scorer.kept())
    scorer.see(pinned(when=at(PIN_SECONDS)), pinned("b", when=at(PIN_SECONDS)))
    assert [*kept, scorer.kept()] == [{"web": "a"}, {"web": "a"}, {}, {}]


async def test_a_bind_at_that_very_moment_is_not_taken_away(scorer: Scorer) -> None:
    scorer.see(pinned())
    scorer.time.seconds += PIN_SECONDS - 1.5
    scorer.reserve(pinned(), "a")
    scorer.time.seconds += 2
    scorer.state.expire()
    assert scorer.kept() == {"web": "a"}


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "small", "nowhere"]), st.integers(-100, 100), st.booleans()),
        max_size=12,
    )
)
async def test_any_pins_expire_within_a_minute(written: list[tuple[str, int, bool]]) -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY, "b": EMPTY, "small": SMALL}, **{TEAM: GATED})
    for node, when, gated in written:
        scorer.see(pinned(node, when=at(when), gates=(PLACEMENT_GATE,) if gated else ()))
        scorer.time.seconds += 1
        scorer.state.expire()
    scorer.time.seconds += PIN_SECONDS
    scorer.state.expire()
    assert scorer.kept() == {}
