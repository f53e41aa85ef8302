"""Which victims would make room that is aligned."""

import pytest

from numalign.ledger.reservations import RELEASE_SECONDS
from scorer.extender_protocol import Victims
from tests.notation import node, table
from tests.scorer.conftest import ALL, EMPTY, LOOSE, SMALL, Raw, Scorer, on, raw, running, uid

HALF = "cpu=4 mem=1Gi gpu=1"


def placed(zone: int) -> list[Raw]:
    """The record of such a half."""
    amount = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}
    return [{"zones": [f"node-{zone}"], "amount": amount}]


@pytest.fixture
async def scorer() -> Scorer:
    """A node whose two zones are full: two halves on each, of pods v0 and v1, v2 and v3."""
    made = Scorer()
    await made.know({"a": EMPTY, "small": SMALL, "loose": LOOSE}, unknown=["bare"])
    for at in range(4):
        made.see(running(on("a", raw(HALF, name=f"v{at}"), record=placed(at // 2))))
    made.time.seconds += RELEASE_SECONDS + 1
    return made


def victims(*names: str) -> Victims:
    return Victims(tuple(map(uid, names)), 1)


def worthwhile(scorer: Scorer, made: Raw, **candidates: Victims) -> dict[str, Victims]:
    return scorer.preemption.worthwhile(scorer.subject(made), candidates)


WORTH = [
    # what it shows                         the pod                  its victims           whether it helps
    ("both of one zone",                    raw(ALL),                ("v0", "v1"),         True),
    ("one of each zone",                    raw(ALL),                ("v0", "v2"),         False),
    ("one, and half a zone is wanted",      raw(HALF),               ("v3",),              True),
    ("one, and a zone is wanted",           raw(ALL),                ("v3",),              False),
    ("more than it takes",                  raw(ALL),                ("v0", "v1", "v2"),   True),
    ("all, and no zone is large enough",    raw("cpu=12 mem=1Gi"),   ("v0", "v1", "v2", "v3"), False),
    ("nobody",                              raw(HALF),               (),                   False),
    ("nobody, and it fits",                 raw("cpu=0.5"),          (),                   True),
    ("somebody who was never here",         raw(HALF),               ("stranger",),        False),
    ("the same one twice",                  raw(ALL),                ("v0", "v0"),         False),
    ("the pod itself",                      raw(ALL, name="v0"),     ("v1",),              True),
]  # fmt: skip


@pytest.mark.parametrize(("made", "names", "helps"), table(WORTH))
async def test_to_evict(scorer: Scorer, made: Raw, names: tuple[str, ...], *, helps: bool) -> None:
    asked = victims(*names)

    assert worthwhile(scorer, made, a=asked) == ({"a": asked} if helps else {})


async def test_nodes_are_kept_in_their_order_with_their_victims_as_they_came(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY, "small": SMALL})
    candidates = {"b": victims(), "small": victims("x"), "a": victims("v2", "v3")}
    found = worthwhile(scorer, raw(ALL), **candidates)

    assert [*found.items()] == [("b", victims()), ("a", victims("v2", "v3"))]


async def test_where_nobody_knows_what_victims_hold_nobody_is_kept_from_trying(scorer: Scorer) -> None:
    """What the stranger holds is unknown, and so is what will be free without it."""
    scorer.see(running(on("a", raw(HALF, name="stranger"))))
    asked = victims("v0")

    assert worthwhile(scorer, raw(HALF), a=asked) == {"a": asked}


async def test_on_a_node_that_publishes_nothing_nobody_is_kept_from_trying(scorer: Scorer) -> None:
    asked = victims("v0")

    assert worthwhile(scorer, raw(ALL, policy=None), bare=asked) == {"bare": asked}


async def test_room_that_was_reserved_meanwhile_is_not_freed_by_others(scorer: Scorer) -> None:
    scorer.lose("v0")
    scorer.reserve(raw(HALF, name="reserved"), "a")

    assert worthwhile(scorer, raw(ALL), a=victims("v1")) == {}


async def test_nobody_is_evicted_from_a_node_that_would_not_answer_any_sooner(scorer: Scorer) -> None:
    await scorer.know({"vast": node(*["cpu=8 mem=8Gi gpu=2"] * 18, policy="single-numa-node")})
    scorer.see(running(on("vast", raw(HALF, name="v"))))

    assert worthwhile(scorer, raw(HALF), vast=victims("v")) == {}
    assert worthwhile(scorer, raw(HALF, policy="best-effort"), vast=victims("v")) == {"vast": victims("v")}


async def test_who_is_to_be_alone_may_have_those_evicted_that_are_on_its_zones() -> None:
    scorer = Scorer()
    await scorer.know({"a": EMPTY})
    for name, zone in (("first", 0), ("second", 1)):
        scorer.see(running(on("a", raw(HALF, name=name), record=placed(zone))))
    alone = raw(HALF, annotations={"numalign.io/exclusive": "zone"})

    assert [answer.permanent for answer in scorer.ask(alone, "a") if not answer.fits] == [False]
    assert worthwhile(scorer, alone, a=victims()) == {}
    assert worthwhile(scorer, alone, a=victims("first"))
    # Without it the kubelet takes the first zone, where the other one is.
    assert worthwhile(scorer, alone, a=victims("second")) == {}
