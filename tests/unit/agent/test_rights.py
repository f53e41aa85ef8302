"""Each right of docs/explanation/security.md is needed: taken away, the agent says so as the page has it.

What is asked of kubelets stands in `test_kubelet_api`, and what a real API server asks for in
`tests/system/e2e`.
"""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from numalign.model.intent import PLACEMENT_OBSERVED
from tests.unit.agent import test_daemon
from tests.unit.agent.beside import POD, TOPOLOGY, Beside, daemon
from tests.worlds import rights
from tests.worlds.rights import Right, Row
from tools.clusters.waiting import until

node = test_daemon.beside

CONFIGZ = "/api/v1/nodes/a/proxy/configz"
REQUESTS = {
    ("get", "nodes"): ("GET", "/api/v1/nodes/a"),
    # To apply what is not there is to create it.
    ("create", "noderesourcetopologies"): ("PATCH", TOPOLOGY),
    ("patch", "noderesourcetopologies"): ("PATCH", TOPOLOGY),
    ("list", "pods"): ("LIST", "/api/v1/pods"),
    ("get", "nodes/proxy"): ("GET", CONFIGZ),
    ("patch", "pods"): ("PATCH", POD),
}
OF_KUBELETS = {("get", "nodes/configz"), ("get", "nodes/pods")}
ROWS = [row for row in rights.rows() if row.program == "agent"]
NEEDED = [
    pytest.param(row, right, id=f"{right.verb} {right.resource}")
    for row in ROWS
    for right in row.rights
    if (right.verb, right.resource) not in OF_KUBELETS
]


def test_every_right_of_the_page_is_tried() -> None:
    assert {
        (right.verb, right.resource) for row in ROWS for right in row.rights
    } == REQUESTS.keys() | OF_KUBELETS


@asynccontextmanager
async def running(node: Beside) -> AsyncIterator[asyncio.StreamReader]:
    node.api.documents[CONFIGZ] = {"kubeletconfig": {"cpuManagerPolicy": "static"}}
    process = await daemon([flag for flag in node.flags("--annotate-pods") if "kubelet-config" not in flag])
    assert process.stderr
    try:
        yield process.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


@pytest.mark.full
@pytest.mark.parametrize(("row", "right"), NEEDED)
async def test_missing_right_is_logged(node: Beside, row: Row, right: Right) -> None:
    assert row.events
    node.api.failures[REQUESTS[right.verb, right.resource]] = HTTPStatus.FORBIDDEN
    async with running(node) as log:
        missing = {*row.events}
        while missing:
            line = json.loads(await log.readline())
            missing.discard(line["event"])


async def test_complete_rights_log_nothing(node: Beside) -> None:
    async with running(node) as log:
        await until(lambda: PLACEMENT_OBSERVED in json.dumps(node.api.get(POD)))
        said = list[str]()
        with contextlib.suppress(TimeoutError):
            while True:
                said.append(json.loads(await asyncio.wait_for(log.readline(), 0.2))["event"])
    assert {*said}.isdisjoint(event for row in ROWS for event in row.events)
