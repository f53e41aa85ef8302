"""Members of a pod group are evaluated beside those of the same round, and nobody else is."""

from collections.abc import AsyncIterator, Callable

import pytest

from numalign.scheduling import pod_groups
from numalign.scheduling.pod_groups import SECONDS
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, FOUR, SINGLE, Caller, Raw, Scorer, on, raw


def member(name: str, request: str = ALL, *, group: str = "gang") -> Raw:
    """A pod of a group; it takes a zone, if nothing else is said."""
    return raw(request, name=name, spec={"schedulingGroup": {"podGroupName": group}})


MEMBERS = [member(f"m{at}") for at in range(5)]


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await made.know({"a": EMPTY, "b": EMPTY})
    made.see(*MEMBERS, raw(ALL, name="other"))
    return made


@pytest.fixture
async def caller(scorer: Scorer) -> AsyncIterator[Caller]:
    async with scorer.open() as opened:
        yield opened


async def tried(caller: Caller, made: Raw, *names: str) -> str | None:
    """The node that a scheduler chooses for a pod; None if none is left."""
    left: list[str] = (await caller.filter(made, *names))["NodeNames"]
    if len(left) > 1:
        scores = await caller.prioritize(made, *left)
        return max(left, key=scores.__getitem__)
    return left[0] if left else None


async def test_members_are_not_promised_one_zone(caller: Caller) -> None:
    assert [await tried(caller, made, "a", "b") for made in MEMBERS] == ["a", "a", "b", "b", None]


async def test_expected_node_of_a_member_scores_highest(caller: Caller) -> None:
    await caller.filter(MEMBERS[0], "a", "b")
    assert await caller.prioritize(MEMBERS[0], "a", "b") == {"a": 10, "b": 0}


async def test_every_round_starts_without_placements(caller: Caller) -> None:
    """As a scheduler tries another set of nodes, or tries again."""
    for _ in range(3):
        assert [await tried(caller, made, "a") for made in MEMBERS[:3]] == ["a", "a", None]
        assert [await tried(caller, made, "b") for made in MEMBERS[:3]] == ["b", "b", None]


async def test_other_pods_ignore_members(scorer: Scorer, caller: Caller) -> None:
    scorer.see(member("stranger", group="other"))
    for made in MEMBERS[:4]:
        await tried(caller, made, "a", "b")
    assert await tried(caller, raw(ALL, name="other"), "a") == "a"
    assert await tried(caller, member("stranger", group="other"), "a") == "a"
    assert scorer.kept() == {}
    assert await scorer.bind(raw(ALL, name="other"), "a") == ""


async def test_unequal_members_with_a_choice_do_not_block(scorer: Scorer, caller: Caller) -> None:
    """Both of the first might have gone where the other one is."""
    one_zone = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
    await scorer.know({"a": one_zone, "b": one_zone})
    halves = [member(f"half-{at}", FOUR) for at in range(2)]
    scorer.see(*halves)
    assert [await tried(caller, made, "a", "b") for made in (MEMBERS[0], halves[0])] == ["a", "b"]
    assert await tried(caller, halves[1], "a") == "a"


LEAVING = {"metadata": {**MEMBERS[0]["metadata"], "deletionTimestamp": "2027-01-15T08:00:00Z"}}


@pytest.mark.parametrize("end", table([
    ("it is bound",         lambda scorer: scorer.see(on("b", MEMBERS[0]))),
    ("it is gone",          lambda scorer: scorer.lose("m0")),
    ("it is being deleted", lambda scorer: scorer.see(MEMBERS[0] | LEAVING)),
    ("it was long ago",     lambda scorer: setattr(scorer.time, "seconds", scorer.time.seconds + SECONDS)),
]))  # fmt: skip
async def test_a_placement_ends_when(end: Callable[[Scorer], object], scorer: Scorer, caller: Caller) -> None:
    for made in MEMBERS[:2]:
        await tried(caller, made, "a")
    end(scorer)
    assert await tried(caller, MEMBERS[2], "a") == "a"


async def test_unwatched_members_place_nothing(caller: Caller, scorer: Scorer) -> None:
    scorer.lose("m0")
    for _ in range(2):
        await tried(caller, MEMBERS[0], "a")
    made = [member(f"invented-{at}") for at in range(3)]
    assert [await tried(caller, each, "a") for each in made] == ["a"] * 3
    assert [await tried(caller, each, "a") for each in MEMBERS[1:3]] == ["a", "a"]


async def test_members_beyond_the_limit_stay_alone(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_groups, "MOST_MEMBERS", 1)
    assert [await tried(caller, made, "a") for made in MEMBERS[:3]] == ["a", "a", "a"]


async def test_a_member_that_holds_nothing_is_placed_as_usual(scorer: Scorer, caller: Caller) -> None:
    small = member("small", "cpu=0.5 mem=1Gi..")
    scorer.see(small)
    await caller.filter(small, "a", "b")
    assert {*(await caller.prioritize(small, "a", "b")).values()} == {10}
