"""map: the zones of the cluster in a file, or served to this machine."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.serving_map import LocalMap
from numalign.kube.connection import Connection
from numalign.kube.files.policy import NO_POLICY
from numalign.model.intent import Match
from numalign.runtime.server import Stop
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import ITEMS, running
from tests.worlds.log import RecordedLog
from tests.worlds.objects import listed
from tools.clusters.fake_api import FakeApi

PODS = (running("good", 1), running("bad", 0, 1))


@pytest.fixture
def cluster(cli: Cli) -> Path:
    return cli.cluster(*PODS)


def test_a_file_has_the_fleet_its_nodes_and_pods(cli: Cli, cluster: Path) -> None:
    page, drawing = cli.folder / "map.html", cli.folder / "map.SVG"
    assert cli.text("map", "--snapshot", cluster, "-o", page) == ""
    cli.text("map", "--snapshot", cluster, "-o", drawing)
    text = page.read_text()

    assert text.startswith("<!doctype html>")
    assert all(word in text for word in ("big", "team/good", "team/bad", "Content-Security-Policy"))
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "<svg" in drawing.read_text()[:200]


def test_filters_select_nodes(cli: Cli, cluster: Path) -> None:
    for flags, shown in {"--only misaligned": True, "--only stale": False, "-l no=such": False}.items():
        page = cli.text("map", "--snapshot", cluster, "-o", "-", "--resource", "cpu", *flags.split())
        assert (page.startswith("<!doctype html>"), "node-big" in page) == (True, shown)


@asynccontextmanager
async def served(source: ClusterSource, path: str = "/") -> AsyncIterator[str]:
    """The address of a map that ends in order."""
    stop, urls = Stop(), asyncio.Queue[str]()
    made = LocalMap(source, NO_POLICY, Match.SATISFIES, 0, path, urls.put_nowait, RecordedLog().log)
    task = asyncio.create_task(made.serve(stop))
    try:
        async with asyncio.timeout(10):
            yield await urls.get()
        stop.ask()
        assert await task == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def page_with(url: str, word: str) -> None:
    """Wait until a page has this word; fails after ten seconds."""
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            async with session.get(url) as answer:
                assert answer.status == 200, await answer.text()
                if word in await answer.text():
                    return
            await asyncio.sleep(0.1)
    pytest.fail(f"never {word}")


async def test_a_changed_snapshot_is_read_again(cluster: Path) -> None:
    async with served(ClusterSource(str(cluster)), "/nodes/big") as url:
        assert url.endswith("/nodes/big")
        await page_with(url, "team/good")
        changed = cluster.with_suffix(".new")
        changed.write_text(json.dumps(listed(*ITEMS, *PODS, running("newcomer", 1))))
        changed.replace(cluster)
        await page_with(url, "team/newcomer")


async def test_a_running_cluster_is_watched(tmp_path: Path) -> None:
    async with FakeApi(token="t") as api:  # noqa: S106  of a server that lives as long as this test
        for item in (*ITEMS, *PODS):
            api.put(item)
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        async with served(ClusterSource(None, Connection(str(kubeconfig)))) as url:
            await page_with(url, "big")
            api.put(running("newcomer", 1))
            await page_with(f"{url}nodes/big", "team/newcomer")


@pytest.mark.full
def test_served_map_prints_its_url_and_ends_on_ctrl_c(cluster: Path) -> None:
    command = [sys.executable, "-m", "kubectl_numa", "map", "--serve", "--snapshot", str(cluster)]
    env = {**os.environ, "KUBECONFIG": "/nowhere"}
    flags = ["--port", "0", "--only", "misaligned"]
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=env) as process:  # noqa: S603  ours
        assert process.stderr
        line = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, others = process.communicate(timeout=20)

    assert line.startswith("The map is at http://localhost:")
    assert line.endswith("/?only=misaligned; press Ctrl-C to stop.\n")
    assert (process.returncode, others) == (0, "")


def test_a_port_in_use_is_an_error(cli: Cli, cluster: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        result = cli("map", "--serve", "--snapshot", cluster, "--port", other.getsockname()[1])

    assert (result.exit_code, "cannot listen: Address already in use" in result.output) == (2, True)
