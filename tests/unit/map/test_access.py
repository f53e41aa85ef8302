"""Who may look at the map: as the API server decides, for a minute, and nobody while it does not answer."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from numalign.map import access
from numalign.map.access import (
    AccessRefused,
    LocalAccess,
    NotPermitted,
    SignInRequired,
    Unavailable,
    as_seen,
)
from numalign.map.views import Visible
from tests.unit.map.serving import ANN, BOB, EVE, TOPOLOGIES, MapSite, reviewed_namespaces

STRANGER = "of.a-stranger"


class Door(MapSite):
    """The access to the map of a cluster."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.access = self.token_access()

    async def enter(self, token: str | None) -> str:
        """Return the name of the user with this token."""
        return (await self.access.visitor(token)).name

    def sign_ins(self, result: str) -> float | None:
        return self.registry.get_sample_value("numalign_map_sign_ins_total", {"result": result})

    async def visible(self, token: str, *namespaces: str) -> list[str]:
        """Return the namespaces whose names a user sees."""

        async def build(visible: Visible) -> list[str]:
            return [namespace for namespace in namespaces if visible(namespace)]

        return await as_seen(await self.access.visitor(token), build)


@pytest.fixture
def door() -> Door:
    return Door()


async def test_names_are_visible_where_pods_may_be_listed(door: Door) -> None:
    assert await door.visible(ANN, "team", "other") == ["team", "other"]
    assert await door.visible(BOB, "team", "other") == ["team"]
    assert reviewed_namespaces(door.api) == ["other", "team"]


async def test_a_missing_right_names_the_role(door: Door) -> None:
    with pytest.raises(NotPermitted, match=r"eve may not list .* the ClusterRole numalign-map-viewer"):
        await door.enter(EVE)
    assert door.sign_ins("forbidden") == 1
    assert [line["user"] for line in door.log.of("map.sign_in_failed")] == ["eve"]


@pytest.mark.parametrize("token", [None, "", "a b", "ä", "x" * 8193, "a\r\nSet-Cookie: b", "\x00"])
async def test_a_malformed_token_is_not_reviewed(door: Door, token: str | None) -> None:
    with pytest.raises(SignInRequired):
        await door.enter(token)
    assert door.api.calls == []


async def test_an_unknown_token_has_the_reason(door: Door) -> None:
    with pytest.raises(SignInRequired, match=r"invalid bearer token, it is too old.*create a new one"):
        await door.enter(STRANGER)
    assert door.sign_ins("unknown") == 1


async def test_a_token_for_another_audience_is_unknown() -> None:
    door = Door(audience="map")
    door.api.audiences[BOB] = "map"

    with pytest.raises(SignInRequired):
        await door.enter(ANN)
    assert await door.enter(BOB) == "bob"


async def test_no_log_line_has_a_token(door: Door) -> None:
    for token in (ANN, EVE, STRANGER):
        try:
            await door.enter(token)
        except AccessRefused:
            continue

    lines = door.log.stream.getvalue()
    assert len(lines.splitlines()) == 3
    assert not any(token in lines for token in (ANN, EVE, STRANGER))


async def test_reviews_count_for_a_minute(door: Door) -> None:
    await door.enter(ANN)
    door.clock.seconds += 59
    await door.enter(ANN)
    assert door.api.count(TOKEN_REVIEWS) == 1

    door.clock.seconds += 1
    await door.enter(ANN)
    assert door.api.count(TOKEN_REVIEWS) == 2
    assert (door.sign_ins("accepted"), len(door.log.of("map.signed_in"))) == (1, 1)


async def test_withdrawn_tokens_and_rights_end_after_a_minute(door: Door) -> None:
    await door.enter(ANN)
    assert await door.visible(BOB, "team") == ["team"]
    del door.api.users[ANN]
    door.api.rights["bob"] -= {("pods", "team")}
    assert await door.visible(BOB, "team") == ["team"]

    door.clock.seconds += 60
    with pytest.raises(SignInRequired):
        await door.enter(ANN)
    assert await door.visible(BOB, "team") == []


@pytest.mark.parametrize("error", [Unreachable("gone"), Forbidden("not allowed to create tokenreviews")])
async def test_without_an_api_server_every_token_is_refused(door: Door, error: ClusterError) -> None:
    await door.enter(ANN)
    door.clock.seconds += 60
    door.api.failure = error

    for token in (ANN, BOB):
        with pytest.raises(Unavailable, match="could not check your token"):
            await door.enter(token)
    assert door.sign_ins("unavailable") == 2
    logged = [line["error"] for line in door.log.of("map.review_failed")]
    assert logged == 2 * [f"{type(error).__name__}: {error}"]

    door.api.failure = None
    assert await door.enter(ANN) == "ann"


async def test_unreviewed_names_are_hidden(door: Door) -> None:
    visitor = await door.access.visitor(BOB)
    door.api.failure = Unreachable("gone")
    await visitor.learn(["team"])
    assert visitor.sees("team") is None

    door.api.failure = None
    await visitor.learn(["team"])
    assert visitor.sees("team") is True


async def test_calls_with_one_token_share_a_review(door: Door) -> None:
    door.api.gate = asyncio.Event()
    calls = [asyncio.create_task(door.enter(ANN)) for _ in range(5)]
    await asyncio.sleep(0)
    # A call that ends early does not end the others.
    calls[0].cancel()
    await asyncio.sleep(0)
    door.api.gate.set()

    assert {*await asyncio.gather(*calls[1:])} == {"ann"}
    assert door.api.count(TOKEN_REVIEWS) == 1


async def test_strangers_do_not_keep_users_out(door: Door) -> None:
    await door.enter(ANN)
    for number in range(access.UNKNOWN_TOKENS_BURST - 1):
        with pytest.raises(SignInRequired):
            await door.enter(f"made-up-{number}")
    with pytest.raises(Unavailable, match="Too many"):
        await door.enter(BOB)
    assert door.api.count(TOKEN_REVIEWS) == access.UNKNOWN_TOKENS_BURST

    door.clock.seconds += access.REVIEW_SECONDS
    for number in range(access.UNKNOWN_TOKENS_BURST):
        with pytest.raises(SignInRequired):
            await door.enter(f"another-{number}")
    assert await door.enter(ANN) == "ann"


async def test_sessions_are_bounded(door: Door) -> None:
    for number in range(access.SESSIONS + 10):
        door.api.add(f"t{number}", f"user-{number}", TOPOLOGIES)
        # Slow enough for the limit of unknown tokens, and fast enough that no session ends.
        door.clock.seconds += 0.1
        await door.enter(f"t{number}")

    assert len(door.access.caches()["map_sessions"]) == access.SESSIONS


async def test_reviews_of_one_page_are_bounded(door: Door) -> None:
    await door.visible(BOB, *(f"n{number}" for number in range(2 * access.MOST_NAMESPACES)))

    assert len(reviewed_namespaces(door.api)) == access.MOST_NAMESPACES
    assert door.api.count(ACCESS_REVIEWS) == access.MOST_NAMESPACES + 2


@pytest.mark.parametrize("host", ["localhost", "localhost:8081", "127.0.0.1:1", "[::1]:8081", "LOCALHOST"])
def test_a_local_map_answers_to_local_names(host: str) -> None:
    LocalAccess().check_host(make_mocked_request("GET", "/", headers={"Host": host}))


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8081", "[", "10.0.0.1"]
)
def test_a_local_map_refuses_other_names(host: str) -> None:
    with pytest.raises(NotPermitted, match="http://localhost"):
        LocalAccess().check_host(make_mocked_request("GET", "/", headers={"Host": host}))


async def test_a_local_map_shows_everything() -> None:
    visitor = await LocalAccess().visitor(None)

    assert (visitor.name, visitor.sees("any")) == ("", True)
