"""The Secret in the cluster: found, made by one, changed by one."""

from http import HTTPStatus

import pytest

from certs import secret as secrets
from certs.state import State
from harness.fake_api import FakeApi
from numalign.kube.client import Api, Conflict, Forbidden, Unreachable
from tests.pairs import PLACE, files, pair, secret

HELD = State(pair())


async def test_none_is_there(client: Api) -> None:
    found = await secrets.find(client, PLACE)

    assert (found.raw, found.state, found.mistakes, found.lost, found.ours) == (None, None, (), True, False)


async def test_ours_is_read(cluster: FakeApi, client: Api) -> None:
    cluster.put(secret(files(HELD.current)))
    found = await secrets.find(client, PLACE)

    assert (found.state, found.ours, found.lost) == (HELD, True, False)


async def test_somebody_elses_is_read_and_not_ours(cluster: FakeApi, client: Api) -> None:
    cluster.put(secret(files(HELD.current), ours=False))
    found = await secrets.find(client, PLACE)

    assert (found.state, found.ours, found.lost) == (HELD, False, False)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody else's"])
async def test_a_broken_one_is_lost_if_it_is_ours(cluster: FakeApi, client: Api, *, ours: bool) -> None:
    cluster.put(secret({**files(HELD.current), "tls.key": b"x"}, ours=ours))
    found = await secrets.find(client, PLACE)

    assert (found.state, found.lost) == (None, ours)
    assert [str(each) for each in found.mistakes] == [
        "data[tls.key]: holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)"
    ]


async def test_a_place_kept_free_is_no_mistake(cluster: FakeApi, client: Api) -> None:
    kept_free = secret({})
    del kept_free["data"]
    cluster.put(kept_free)
    found = await secrets.find(client, PLACE)

    assert (found.lost, found.mistakes) == (True, ())


async def test_one_wins_who_makes_it(client: Api) -> None:
    found = await secrets.find(client, PLACE)
    kept = await secrets.keep(client, found, HELD)

    assert (kept.state, kept.ours) == (HELD, True)
    with pytest.raises(Conflict):
        await secrets.keep(client, found, State(pair()))


async def test_one_wins_who_changes_it(cluster: FakeApi, client: Api) -> None:
    cluster.put(secret(files(HELD.current)))
    found = await secrets.find(client, PLACE)
    following = State(HELD.current, pair())

    assert (await secrets.keep(client, found, following)).state == following
    with pytest.raises(Conflict):
        await secrets.keep(client, found, State(pair()))


async def test_what_the_api_server_refuses_is_raised(cluster: FakeApi, client: Api) -> None:
    cluster.failures[PLACE.path] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden, match="you may not read Secret numalign-system/numalign-webhook-tls"):
        await secrets.find(client, PLACE)


async def test_an_answer_that_is_no_object_holds_nothing(cluster: FakeApi, client: Api) -> None:
    cluster.oddities[PLACE.path] = b"[]"
    found = await secrets.find(client, PLACE)

    assert (found.state, found.ours, found.lost) == (None, False, False)
    assert found.mistakes


async def test_an_answer_that_is_no_json_is_raised(cluster: FakeApi, client: Api) -> None:
    cluster.oddities[PLACE.path] = b"<html>"

    with pytest.raises(Unreachable, match="makes no sense"):
        await secrets.find(client, PLACE)
