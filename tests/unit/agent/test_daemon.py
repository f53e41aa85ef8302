"""The program as it runs on a node: two stages, an API server, and a kubelet's socket."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from agent.__main__ import PROGRAM, main
from numalign.kube.decode import kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import MACHINE
from tests.unit.agent.beside import POD, Beside, metrics_port, node
from tests.worlds.notation import table
from tools.clusters.waiting import seconds_until, until

HEAVY = [
    "aiohttp", "click", "cryptography", "grpc", "kubernetes_asyncio", "numpy", "pydantic", "rich", "yaml",
]  # fmt: skip


@pytest_asyncio.fixture
async def beside(tmp_path: Path) -> AsyncIterator[Beside]:
    async with node(tmp_path) as found:
        yield found


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, list[dict[str, Any]]]:
    out, err = await process.communicate()
    code = await process.wait()
    return code, out.decode(), [json.loads(line) for line in err.decode().splitlines()]


def test_a_daemon_imports_little() -> None:
    code = "import agent.daemon, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert set(found.stdout.split()).isdisjoint(HEAVY)
    assert "agent" in found.stdout.split()


async def test_once_prints_the_objects_and_writes_nothing(beside: Beside) -> None:
    code, out, log = await ended(await beside.start_daemon("--once", "--output=-"))
    assert (code, log) == (0, [])
    topology = json.loads(out)
    assert [zone.name for zone in nrt.topology(topology).zones] == ["node-0", "node-1"]
    read = kubelet_reports.read_machine(topology["metadata"]["annotations"][MACHINE], "a")
    assert (read.version, read.machine.cpus) == ("v1.34.4", 0b11111111)
    assert beside.topology() is None
    file = beside.folder / "out.json"
    code, out, _ = await ended(await beside.start_daemon("--once", f"--output={file}"))
    assert (code, out, json.loads(file.read_text())["metadata"]["name"]) == (0, "", "a")


async def test_daemon_follows_its_kubelet_until_stopped(beside: Beside) -> None:
    process = await beside.start("--annotate-pods")
    await until(lambda: beside.cpus() == [0b110])
    beside.hold("5-6", 5, 6)
    await until(lambda: beside.cpus() == [0b1100000])
    await until(lambda: "node-1" in json.dumps(beside.api.get(POD)))
    process.send_signal(signal.SIGTERM)
    code, _, log = await ended(process)
    assert code == 0
    assert [line["event"] for line in log] == ["server.listening", "server.stopped"]


async def test_daemon_serves_its_health_and_metrics(beside: Beside) -> None:
    process = await beside.start_daemon()
    port = await metrics_port(process)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def page(path: str) -> tuple[int, str]:
            async with session.get(path) as answer:
                return answer.status, await answer.text()

        await seconds_until(
            lambda: page("/metrics"),
            lambda seen: 'numalign_agent_writes_total{result="applied"} 1.0' in seen[1],
            what="it counts its write",
            within=30,
        )
        _, counted = await page("/metrics")
        assert (await page("/readyz"))[0] == 200

    assert 'program="numalign-agent"' in counted
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 0


@pytest.mark.full
@pytest.mark.parametrize(("flags", "code", "event"), table([
    # what fails            flags; {} is a port that is taken                   code, event
    ("to see the kubelet",  "--once --podresources-socket=/nowhere.sock",       1, "node.observation_failed"),
    ("to listen",           "--metrics-port={}",                                2, "server.start_failed"),
]))  # fmt: skip
async def test_daemon_ends_if_it_fails(beside: Beside, flags: str, code: int, event: str) -> None:
    port = str(beside.api.port)
    ending, out, log = await ended(await beside.start_daemon(*flags.format(port).split()))
    assert (ending, out, [line["event"] for line in log]) == (code, "", [event])
    assert code == 1 or port in log[0]["errors"][0]


@pytest.mark.parametrize(("flags", "mistake"), [
    ("", "--node-name: is required"),
    ("--node-name=a --annotate-pods --output=-", "remove one of them"),
    ("--node-name=a --kubeconfig=/nowhere", "there is no kubeconfig at /nowhere"),
])  # fmt: skip
def test_unusable_settings_are_reported_first(
    flags: str, mistake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.setattr(sys, "argv", [PROGRAM, *flags.split()])
    # It would become the daemon.
    monkeypatch.delattr(os, "execve")
    with pytest.raises(SystemExit, match=r"^2$"):
        sys.exit(main())
    assert mistake in capsys.readouterr().err
