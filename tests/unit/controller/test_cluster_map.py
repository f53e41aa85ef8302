"""The map as the controller serves it: from every replica, to users of the API server, with no write."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest

from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from tests.unit.controller.test_program import CONFIGMAPS, LARGE, LEASES, PODS, REJECTED, SMALL, Site
from tests.worlds import webhook
from tests.worlds.served import Served
from tools.clusters.fake_api import FakeApi

ANN = "token-of-ann"
MAP = ("--map", "--map-port=0", "--label-nodes=false")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server with two nodes, a rejected pod, and a user who may read it all."""
    async with FakeApi(people={ANN: "ann"}) as api:
        for each in webhook.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        site = Site(tmp_path, api)
        status = {**REJECTED, "startTime": "2026-01-01T00:00:00Z"}
        site.put("web", webhook.raw("cpu=2 mem=1Gi", policy="single-numa-node"), status, nodeName="small")
        yield site


async def look(controller: Served, path: str, token: str = ANN) -> tuple[int, str]:
    """Status and content of a page of the map."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as user, user.get(controller.url(path)) as answer:
        return answer.status, await answer.text()


async def test_every_replica_serves_the_map_and_writes_nothing(site: Site) -> None:
    async with site.running(*MAP) as one, site.running(*MAP) as other:
        for controller in (one, other):
            status, text = await look(controller, "/pods/team/web")
            assert (status, "web" in text, "ann" in text) == (HTTPStatus.OK, True, True)
        status, _ = await look(one, "/api/fleet", "made-up")
        _, metrics = await one.text("/metrics")
        await one.until(site.remembered)
        assert sum(len(each.journal.of("lease.acquired")) for each in (one, other)) == 1

    assert status == HTTPStatus.UNAUTHORIZED
    assert 'numalign_map_sign_ins_total{result="accepted"} 1.0' in metrics
    assert 'numalign_http_requests_total{code="401",route="/api/fleet"} 1.0' in metrics
    assert 'numalign_cache_entries{cache="map_sessions"} 1.0' in metrics
    assert site.api.received("LIST", PODS)
    written = {path for path in site.writes() if not path.startswith((LEASES, CONFIGMAPS))}
    assert written == {TOKEN_REVIEWS, ACCESS_REVIEWS}


async def test_missing_certificate_stops_the_controller(site: Site) -> None:
    with pytest.raises(pytest.fail.Exception, match="it ended with 2"):
        async with site.running(*MAP, "--map-tls-cert=/nowhere.crt", "--map-tls-key=/nowhere.key"):
            pytest.fail("it began")
