"""Who may look at the map: as the API server says, for a minute, and nobody while it says nothing."""

import asyncio
from collections.abc import Iterable

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from numalign.map import access
from numalign.map.access import (
    AccessRefused,
    AccessUnchecked,
    LocalAccess,
    NotPermitted,
    SignInRequired,
    TokenAccess,
    as_seen,
)
from numalign.map.views import Visible
from tests.unit.map.reviewing import ALL_PODS, TOPOLOGIES, ReviewingApi, namespaces_asked
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog

ANN, BOB, EVE = "token.of-ann", "token.of-bob", "token.of-eve"


class House:
    """An access to a made-up cluster: Ann sees all, Bob the pods of one namespace, Eve may not look."""

    def __init__(self, *, audience: str = "") -> None:
        self.api = ReviewingApi()
        self.api.knows(ANN, "ann", TOPOLOGIES, ALL_PODS)
        self.api.knows(BOB, "bob", TOPOLOGIES, ("pods", "team"))
        self.api.knows(EVE, "eve", ALL_PODS)
        self.clock, self.told, self.registry = Clock(1000.0), RecordedLog(), CollectorRegistry()
        self.access = TokenAccess(
            self.api, audience=audience, log=self.told.log, registry=self.registry, clock=self.clock
        )

    def sign_ins(self, result: str) -> float | None:
        """How many tokens came to this."""
        return self.registry.get_sample_value("numalign_map_sign_ins_total", {"result": result})


async def names_seen(house: House, token: str, namespaces: Iterable[str]) -> list[str]:
    """The namespaces out of these whose names somebody is shown."""

    async def build(visible: Visible) -> list[str]:
        return [namespace for namespace in namespaces if visible(namespace)]

    return await as_seen(await house.access.visitor(token), build)


async def test_each_sees_the_names_that_he_may_list() -> None:
    house = House()

    assert await names_seen(house, ANN, ["team", "other"]) == ["team", "other"]
    assert await names_seen(house, BOB, ["team", "other"]) == ["team"]
    assert namespaces_asked(house.api) == ["other", "team"]


async def test_whoever_may_not_list_topologies_is_told_which_role_it_takes() -> None:
    house = House()

    with pytest.raises(NotPermitted, match=r"eve may not list .* the ClusterRole numalign-map-viewer"):
        await house.access.visitor(EVE)
    assert house.sign_ins("forbidden") == 1
    assert [line["user"] for line in house.told.of("map.sign_in_failed")] == ["eve"]


@pytest.mark.parametrize("token", [None, "", "a b", "ä", "x" * 8193, "a\r\nSet-Cookie: b", "\x00"])
async def test_what_is_no_token_is_not_even_asked_about(token: str | None) -> None:
    house = House()

    with pytest.raises(SignInRequired):
        await house.access.visitor(token)
    assert house.api.calls == []


async def test_a_token_that_nobody_knows_is_told_why() -> None:
    house = House()

    with pytest.raises(SignInRequired, match=r"invalid bearer token, it is too old.*create a new one"):
        await house.access.visitor("of.somebody")
    assert house.sign_ins("unknown") == 1


async def test_a_token_for_another_audience_is_none() -> None:
    house = House(audience="map")
    house.api.audiences[BOB] = "map"

    with pytest.raises(SignInRequired):
        await house.access.visitor(ANN)
    assert (await house.access.visitor(BOB)).name == "bob"


async def test_no_log_line_holds_a_token() -> None:
    house = House()
    for token in (ANN, EVE, "of.somebody"):
        try:
            await house.access.visitor(token)
        except AccessRefused:
            continue

    lines = house.told.stream.getvalue()
    assert len(lines.splitlines()) == 3
    assert not any(token in lines for token in (ANN, EVE, "of.somebody"))


async def test_what_was_said_counts_for_a_minute() -> None:
    house = House()
    await house.access.visitor(ANN)
    house.clock.seconds += 59
    await house.access.visitor(ANN)
    assert house.api.count(TOKEN_REVIEWS) == 1

    house.clock.seconds += 1
    await house.access.visitor(ANN)
    assert house.api.count(TOKEN_REVIEWS) == 2
    assert house.sign_ins("accepted") == 1
    assert len(house.told.of("map.signed_in")) == 1


async def test_a_token_that_was_taken_back_is_none_after_a_minute() -> None:
    house = House()
    await house.access.visitor(ANN)
    del house.api.users[ANN]
    house.clock.seconds += 60

    with pytest.raises(SignInRequired):
        await house.access.visitor(ANN)


async def test_rights_that_were_taken_away_are_gone_after_a_minute() -> None:
    house = House()
    assert await names_seen(house, BOB, ["team"]) == ["team"]
    house.api.rights["bob"] -= {("pods", "team")}
    assert await names_seen(house, BOB, ["team"]) == ["team"]

    house.clock.seconds += 60
    assert await names_seen(house, BOB, ["team"]) == []


@pytest.mark.parametrize("error", [Unreachable("gone"), Forbidden("not allowed to create tokenreviews")])
async def test_while_the_api_server_says_nothing_nobody_is_let_in(error: ClusterError) -> None:
    house = House()
    await house.access.visitor(ANN)
    house.clock.seconds += 60
    house.api.failure, logged = error, f"{type(error).__name__}: {error}"

    for token in (ANN, BOB):
        with pytest.raises(AccessUnchecked, match="could not check your token"):
            await house.access.visitor(token)
    assert house.sign_ins("unavailable") == 2
    assert [line["error"] for line in house.told.of("map.review_failed")] == 2 * [logged]

    house.api.failure = None
    assert (await house.access.visitor(ANN)).name == "ann"


async def test_names_about_which_nobody_can_be_asked_stay_hidden_until_somebody_can() -> None:
    house = House()
    visitor = await house.access.visitor(BOB)
    house.api.failure = Unreachable("gone")
    await visitor.learn(["team"])
    assert visitor.sees("team") is None

    house.api.failure = None
    await visitor.learn(["team"])
    assert visitor.sees("team") is True


async def test_calls_with_one_token_are_one_question() -> None:
    house = House()
    house.api.gate = asyncio.Event()
    waiting = [asyncio.create_task(house.access.visitor(ANN)) for _ in range(5)]
    await asyncio.sleep(0)
    # One who gives up does not spoil it for the others.
    waiting[0].cancel()
    await asyncio.sleep(0)
    house.api.gate.set()

    assert {visitor.name for visitor in await asyncio.gather(*waiting[1:])} == {"ann"}
    assert house.api.count(TOKEN_REVIEWS) == 1


async def test_strangers_do_not_keep_out_who_is_known() -> None:
    house = House()
    await house.access.visitor(ANN)
    for number in range(access.UNKNOWN_TOKENS_BURST - 1):
        with pytest.raises(SignInRequired):
            await house.access.visitor(f"made-up-{number}")
    with pytest.raises(AccessUnchecked, match="Too many"):
        await house.access.visitor(BOB)
    assert house.api.count(TOKEN_REVIEWS) == access.UNKNOWN_TOKENS_BURST

    house.clock.seconds += access.REVIEW_SECONDS
    for number in range(access.UNKNOWN_TOKENS_BURST):
        with pytest.raises(SignInRequired):
            await house.access.visitor(f"another-{number}")
    assert (await house.access.visitor(ANN)).name == "ann"


async def test_only_so_many_tokens_are_remembered() -> None:
    house = House()
    for number in range(access.SESSIONS + 10):
        house.api.knows(f"t{number}", f"user-{number}", TOPOLOGIES)
        # Not so fast that they would be turned away, and not so slow that the first are too old.
        house.clock.seconds += 0.1
        await house.access.visitor(f"t{number}")

    assert len(house.access.caches()["map_sessions"]) == access.SESSIONS


async def test_of_a_page_only_so_many_namespaces_are_asked_about() -> None:
    house = House()
    await names_seen(house, BOB, [f"n{number}" for number in range(2 * access.MOST_NAMESPACES)])

    assert len(namespaces_asked(house.api)) == access.MOST_NAMESPACES
    assert house.api.count(ACCESS_REVIEWS) == access.MOST_NAMESPACES + 2


# At one's own machine.


@pytest.mark.parametrize("host", ["localhost", "localhost:8081", "127.0.0.1:1", "[::1]:8081", "LOCALHOST"])
def test_a_map_on_ones_own_machine_answers_to_its_names(host: str) -> None:
    LocalAccess().check_host(make_mocked_request("GET", "/", headers={"Host": host}))


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8081", "[", "10.0.0.1"]
)
def test_a_name_that_leads_here_from_elsewhere_is_refused(host: str) -> None:
    with pytest.raises(NotPermitted, match="http://localhost"):
        LocalAccess().check_host(make_mocked_request("GET", "/", headers={"Host": host}))


async def test_at_ones_own_machine_everything_is_seen() -> None:
    visitor = await LocalAccess().visitor(None)

    assert (visitor.name, visitor.sees("any")) == ("", True)
