"""What the guide says to uninstall leaves nothing behind."""

from collections.abc import Awaitable, Callable

import pytest

from tests.system.e2e.clusters import Cluster
from tests.system.e2e.controllers import controllers
from tests.unit.docs.blocks import SHELL
from tests.unit.docs.guides import Guide
from tools.clusters.api_requests import Json, ask

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.last]

APPLIED = "Remove what kubectl applied"


async def test_documented_uninstall_leaves_nothing(
    cluster: Cluster, shell: Callable[[str], Awaitable[tuple[int, str]]]
) -> None:
    assert await traces(cluster)
    async with controllers(cluster):
        for command in Guide.read("uninstall").blocks(APPLIED, SHELL):
            code, output = await shell(command)
            assert code == 0, f"{command}\n{output}"

    assert await traces(cluster) == []
    assert (cluster.replicas.running, cluster.controllers.running) == ([], [])


async def traces(cluster: Cluster) -> list[str]:
    """Everything in the cluster that has our name on it, or in it; the events of the API server aside."""
    found = []
    for kind in await cluster.store.kinds():
        if "list" in kind.verbs:
            items = (await ask(cluster.api, "GET", kind.path())).body.get("items", [])
            found += [f"{kind.plural}/{item['metadata']['name']}" for item in items if ours(item)]
    return found


def ours(item: Json) -> bool:
    metadata = item["metadata"]
    written = (
        metadata["name"],
        metadata.get("namespace", ""),
        *metadata.get("labels", {}),
        *metadata.get("annotations", {}),
    )
    return any("numalign" in text for text in written)
