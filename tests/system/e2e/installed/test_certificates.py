"""The certificate that replicas share is changed under load, and no review fails."""

import asyncio
from functools import partial
from http import HTTPStatus

import pytest

from tests.system.e2e.clusters import Cluster, Rotation, admitted
from tests.system.e2e.loads import LOADED, load
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.reviews import reviews


def test_rotation_replaces_certificate_and_ca_everywhere(rotation: Rotation) -> None:
    assert rotation.code == 0, rotation.output
    for shown in (rotation.before, rotation.after):
        assert len(shown.served) == 1
        [authorities] = shown.trusted
        assert len(authorities) == 1
    assert not rotation.after.served & rotation.before.served
    assert not rotation.after.trusted & rotation.before.trusted
    assert (rotation.reviews.failed, rotation.load.wrong) == (0, [])
    assert rotation.load.right > 50


@pytest.mark.asyncio(loop_scope="session")
async def test_spoilt_secret_is_repaired_without_failed_reviews(rotation: Rotation, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets/{shipped.SECRET}"
    secret = (await ask(cluster.api, "GET", path)).body
    spoiled = secret | {"data": {"tls.crt": "", "tls.key": ""}}
    reviewed = await reviews(cluster.api)

    async with load(cluster.api, LOADED, right=admitted, namespace="enforced") as count:
        assert (await ask(cluster.api, "PUT", path, spoiled)).code == HTTPStatus.OK
        await eventually(
            partial(ask, cluster.api, "GET", path),
            lambda answer: answer.body["data"].get("tls.crt") == secret["data"]["tls.crt"],
            "the certificate was in the Secret again",
        )
        await asyncio.sleep(1)
    asked = (await reviews(cluster.api)).since(reviewed)

    assert (asked.failed, count.wrong) == (0, [])
    assert (await cluster.shown()).served == rotation.after.served
