"""The certificate that replicas share is changed under load, and no review fails."""

from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.system.e2e.clusters import Cluster, admitted
from tests.system.e2e.loads import lossless
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import ask
from tools.clusters.processes import program, run

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Each step is given as long as two replicas need that look every ten seconds, and some seconds more.
ROTATE = (
    *("rotate", "--namespace", shipped.NAMESPACE, "--secret", shipped.SECRET),
    *("--configuration", shipped.CONFIGURATION, "--settle", "15"),
)


async def test_rotation_replaces_certificate_and_ca_everywhere(cluster: Cluster, tmp_path: Path) -> None:
    kubeconfig = cluster.plane.kubeconfig("admin", tmp_path)
    before = await cluster.shown()
    async with lossless(cluster.api, right=admitted):
        code, output = await run(program("numalign-certs"), *ROTATE, "--kubeconfig", str(kubeconfig))
        assert code == 0, output
    after = await cluster.shown()

    # One certificate before and one after, and bundles of one authority.
    assert [len(each) for both in (before, after) for each in both] == [1] * 4
    assert {len(authorities) for _, trusted in (before, after) for authorities in trusted} == {1}
    assert not before[0] & after[0]
    assert not before[1] & after[1]


async def test_spoilt_secret_is_repaired_without_failed_reviews(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets/{shipped.SECRET}"
    secret = (await ask(cluster.api, "GET", path)).body
    served, _ = await cluster.shown()

    async with lossless(cluster.api, right=admitted):
        spoiled = secret | {"data": {"tls.crt": "", "tls.key": ""}}
        assert (await ask(cluster.api, "PUT", path, spoiled)).code == HTTPStatus.OK
        await eventually(
            partial(ask, cluster.api, "GET", path),
            lambda answer: answer.body["data"].get("tls.crt") == secret["data"]["tls.crt"],
            "the certificate was in the Secret again",
        )

    assert (await cluster.shown())[0] == served
