"""The map as the controller serves it: by every replica, to whom the API server names, with no write."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest

from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from tests.unit.controller.test_program import LARGE, LEASES, PODS, SMALL, Bench, Running
from tests.worlds import webhook as world
from tools.clusters.fake_api import FakeApi

ANN = "token-of-ann"
MAP = ("--map", "--map-port=0", "--label-nodes=false")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """An API server with two nodes, a refused pod, and somebody who may see it all."""
    async with FakeApi(people={ANN: "ann"}) as api:
        for each in world.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        pod = world.raw("cpu=2 mem=1Gi", policy="single-numa-node")
        metadata = {**pod["metadata"], "namespace": "team", "name": "web"}
        status = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": "2026-01-01T00:00:00Z"}
        api.put({**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": "small"}, "status": status})
        yield Bench(tmp_path, api)


async def look(controller: Running, path: str, token: str = ANN) -> tuple[int, str]:
    """Status and content of a page of the map."""
    [listening] = controller.told.of("server.listening")
    url = f"http://127.0.0.1:{listening['port']}{path}"
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_every_replica_serves_it_whoever_leads(bench: Bench) -> None:
    async with bench.running(*MAP) as one, bench.running(*MAP) as other:
        for controller in (one, other):
            await controller.until(controller.ready)
            status, text = await look(controller, "/")
            assert (status, "large" in text, "ann" in text) == (HTTPStatus.OK, True, True)
        assert sum(len(each.told.of("lease.acquired")) for each in (one, other)) == 1


async def test_it_takes_a_token_that_the_api_server_knows(bench: Bench) -> None:
    async with bench.running(*MAP) as controller:
        await controller.until(controller.ready)
        statuses = [(await look(controller, "/api/fleet", token))[0] for token in (ANN, "made-up")]
        _, metrics = await controller.get("/metrics")

    assert statuses == [HTTPStatus.OK, HTTPStatus.UNAUTHORIZED]
    assert 'numalign_map_sign_ins_total{result="accepted"} 1.0' in metrics
    assert 'numalign_http_requests_total{code="401",route="/api/fleet"} 1.0' in metrics
    assert 'numalign_cache_entries{cache="map_sessions"} 1.0' in metrics


async def test_with_the_map_alone_pods_are_watched_and_nothing_is_written_about_them(bench: Bench) -> None:
    async with bench.running(*MAP) as controller:
        await controller.until(controller.ready)
        await look(controller, "/pods/team/web")
        await controller.until(bench.kept)

    assert bench.api.asked("LIST", PODS)
    shapes = "/api/v1/namespaces/numalign-system/configmaps"
    written = {path for path in bench.writes() if not path.startswith((LEASES, shapes))}
    assert written == {TOKEN_REVIEWS, ACCESS_REVIEWS}


async def test_without_it_nothing_is_served(bench: Bench) -> None:
    async with bench.running() as controller:
        await controller.until(controller.ready)
        [listening] = controller.told.of("server.listening")

    assert "port" not in listening


async def test_a_certificate_that_is_not_there_stops_it(bench: Bench) -> None:
    with pytest.raises(pytest.fail.Exception, match="it ended with 2"):
        async with bench.running(*MAP, "--map-tls-cert=/nowhere.crt", "--map-tls-key=/nowhere.key"):
            pytest.fail("it began")
