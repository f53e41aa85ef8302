"""What is shipped is taken by a real API server as it stands, each object by itself."""

from http import HTTPStatus

import pytest

from tests.system.e2e.clusters import Cluster
from tools.clusters import shipped
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")


def described(document: Json) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


@pytest.mark.parametrize("document", [pytest.param(each, id=described(each)) for each in shipped.objects()])
async def test_the_api_server_takes_every_object_that_is_shipped(cluster: Cluster, document: Json) -> None:
    answer = await cluster.store.try_to_apply(document, dryRun="All", force="true")

    assert answer.code in {HTTPStatus.OK, HTTPStatus.CREATED}, answer.body
    assert answer.warnings == []
