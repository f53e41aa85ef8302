"""map: the zones of the cluster in a file, or served to this machine."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from errno import ENOENT
from os import strerror
from pathlib import Path

import aiohttp
import pytest
from click.testing import Result

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.serving_map import LocalMap
from numalign.kube.connection import Connection
from numalign.kube.files.policy import NO_POLICY
from numalign.model.intent import Match
from numalign.runtime.server import Stop
from tests.unit.kubectl_numa.commands.test_pods import PODS, placed
from tests.unit.kubectl_numa.objects import ITEMS
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi

Run = Callable[..., Result]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A snapshot with pods."""
    path = tmp_path / "cluster.json"
    write(path, *PODS)
    return path


def write(path: Path, *pods: object) -> None:
    """Put another snapshot in place of the one that is there."""
    made = path.with_suffix(".new")
    made.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*ITEMS, *pods]}))
    made.replace(path)


# In a file.


def test_one_file_has_the_fleet_its_nodes_and_who_holds_what(run: Run, cluster: Path, tmp_path: Path) -> None:
    file = tmp_path / "map.html"
    result = run("map", "--snapshot", cluster, "-o", file)

    assert (result.exit_code, result.stdout) == (0, ""), result.output
    text = file.read_text()
    assert text.startswith("<!doctype html>")
    assert all(word in text for word in ("big", "team/good", "team/bad", "Content-Security-Policy"))
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_a_drawing_is_svg_and_standard_output_gets_the_file(run: Run, cluster: Path, tmp_path: Path) -> None:
    file = tmp_path / "map.SVG"
    assert run("map", "--snapshot", cluster, "-o", file).exit_code == 0
    assert "<svg" in file.read_text()[:200]

    assert run("map", "--snapshot", cluster, "-o", "-").stdout.startswith("<!doctype html>")


def test_filters_are_those_of_the_page(run: Run, cluster: Path) -> None:
    shown = {
        flags: "node-big" in run("map", "--snapshot", cluster, "-o", "-", *flags).stdout
        for flags in (("--only", "misaligned"), ("--only", "stale"), ("-l", "no=such"), ("--resource", "cpu"))
    }

    assert [*shown.values()] == [True, False, False, True]


BAD = [
    ("", "use either --serve"),
    ("--serve -o map.html", "use either --serve"),
    ("-o map.png", "ends in .html or .svg"),
    ("-o map", "ends in .html or .svg"),
    ("-o /nowhere/map.html", f"/nowhere/map.html: {strerror(ENOENT)}"),
    ("-o - -l a=b=c", "labels"),
    ("-o - --resource a/b/c", "resource"),
    ("-o - --only nice", "--only"),
    ("--serve --port 70000", "--port"),
    ("-o - --snapshot nowhere.json", "nowhere.json"),
]


@pytest.mark.parametrize(("flags", "said"), BAD, ids=[flags or "nothing" for flags, _ in BAD])
def test_what_makes_no_sense_is_told(run: Run, cluster: Path, flags: str, said: str) -> None:
    result = run("map", "--snapshot", cluster, *flags.split())

    assert (result.exit_code, said in result.output) == (2, True), result.output
    assert "Traceback" not in result.output


def test_standard_input_cannot_be_read_again(run: Run) -> None:
    result = run("map", "--serve", "--snapshot", "-", stdin="{}")

    assert (result.exit_code, "specify a file, not standard input" in result.output) == (2, True)


# Served.


@asynccontextmanager
async def served(source: ClusterSource, path: str = "/") -> AsyncIterator[str]:
    """The address of a map that is served; it ends in order."""
    told, stop, urls = RecordedLog(), Stop(), asyncio.Queue[str]()
    made = LocalMap(source, NO_POLICY, Match.SATISFIES, 0, path, urls.put_nowait, told.log)
    task = asyncio.create_task(made.serve(stop))
    try:
        async with asyncio.timeout(10):
            yield await urls.get()
        stop.ask()
        assert await task == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def shown(url: str) -> str:
    """A page."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def until_shown(url: str, word: str) -> None:
    """Wait until a page has this word; fails after ten seconds."""
    for _ in range(100):
        if word in await shown(url):
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"never {word}")


async def test_a_snapshot_is_read_again_when_it_changes(cluster: Path) -> None:
    async with served(ClusterSource(str(cluster)), "/nodes/big") as url:
        assert url.endswith("/nodes/big")
        assert "team/good" in await shown(url)
        write(cluster, *PODS, placed("newcomer", 1))
        await until_shown(url, "team/newcomer")


async def test_a_running_cluster_is_watched(tmp_path: Path) -> None:
    async with FakeApi(token="t") as api:  # noqa: S106  of a server that lives as long as this test
        for item in (*ITEMS, *PODS):
            api.put(item)
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        async with served(ClusterSource(None, Connection(str(kubeconfig)))) as url:
            assert "big" in await shown(url)
            api.put(placed("newcomer", 1))
            await until_shown(f"{url}nodes/big", "team/newcomer")


@contextmanager
def process(*flags: str) -> Iterator["subprocess.Popen[str]"]:
    """The program as somebody would run it, ended if it did not end."""
    command = [sys.executable, "-m", "kubectl_numa", "map", "--serve", *flags]
    environment = {**os.environ, "KUBECONFIG": "/nowhere"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:  # noqa: S603
        try:
            yield running
        finally:
            running.kill()


def test_it_says_where_it_is_and_ctrl_c_ends_it_quietly(cluster: Path) -> None:
    with process("--snapshot", str(cluster), "--port", "0", "--only", "misaligned") as running:
        assert running.stderr
        line = running.stderr.readline()
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        code = running.wait(20)

    assert line.startswith("The map is at http://localhost:")
    assert line.endswith("/?only=misaligned; press Ctrl-C to stop.\n")
    assert (code, rest) == (0, "")


def test_a_port_that_is_taken_is_told(run: Run, cluster: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("map", "--serve", "--snapshot", cluster, "--port", taken.getsockname()[1])

    assert (result.exit_code, "cannot listen: Address already in use" in result.output) == (2, True)
