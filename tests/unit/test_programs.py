"""Webhook and scorer as programs: what they do when files or the API server fail, and as processes."""

import asyncio
import os
import signal
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from prometheus_client import CollectorRegistry

from certs import authority
from numalign.kube.errors import Unconfigured
from numalign.model.errors import BadInput
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from scorer.program import LEASE, ScorerProgram
from scorer.settings import ScorerSettings
from tests.worlds import faster
from tests.worlds import webhook as world
from tests.worlds.notation import node, table
from tests.worlds.scorer import raw as pod
from tests.worlds.served import LOCAL, PLAIN, Launcher, Program, Served
from tests.worlds.webhook import Webhook, raw, request
from tools.clusters.fake_api import FakeApi
from webhook.__main__ import PROGRAM, main
from webhook.program import WebhookProgram
from webhook.settings import WebhookSettings

ROOT = Path(__file__).parents[2]
SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)

WEBHOOK, SCORER = "webhook", "scorer"
every_program = pytest.mark.parametrize("program", [WEBHOOK, SCORER])


def built(launcher: Launcher, program: str, *argv: str) -> Program:
    """Return the program with these flags."""
    flags, log, registry = [*LOCAL, *argv], launcher.journal.log, CollectorRegistry()
    if program == WEBHOOK:
        webhook = load(WebhookSettings, argv=flags, environ={}).settings
        return WebhookProgram(webhook, log, registry, sleep=faster.sleep)
    return ScorerProgram(load(ScorerSettings, argv=flags, environ={}).settings, log, registry, faster.sleep)


def running(launcher: Launcher, program: str, *argv: str) -> AbstractAsyncContextManager[Served]:
    """Run the program with these flags against the API server."""
    return Served.running(built(launcher, program, *launcher.kubeconfig(), *argv), launcher.journal)


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[Launcher]:
    async with FakeApi() as api:
        for each in world.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        yield Launcher(tmp_path, api)


# The API server.

NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
PAIR = "/api/v1/namespaces/numalign-system/secrets/own"
OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
KUBELETS = (*PLAIN, "--kubelet-configs=true")
WATCH, CONFIGZ = "watch.forbidden", "kubelet_config.forbidden"

Where = str | tuple[str, str]

REFUSED: list[tuple[str, str, tuple[str, ...], Where, str, bool]] = [
    # what is forbidden            program, flags  path                                 event, readiness
    ("topologies to the webhook",  WEBHOOK, PLAIN, TOPOLOGIES,                             WATCH,   False),
    ("pods to the webhook",        WEBHOOK, PLAIN, "/api/v1/pods",                         WATCH,   True),
    ("the pair to the webhook",    WEBHOOK, OWN,   PAIR, "certificates.failing",                    False),
    ("kubelets to the webhook",    WEBHOOK, KUBELETS, f"{NODES}/small/proxy/configz", CONFIGZ,      True),
    ("namespaces to the scorer",   SCORER,  PLAIN, "/api/v1/namespaces",                   WATCH,   False),
    ("pods to the scorer",         SCORER,  PLAIN, "/api/v1/pods",                         WATCH,   False),
    ("the lease to the scorer",    SCORER,  PLAIN, f"{LEASES}/{LEASE}",            "lease.failed",  False),
    ("a new lease to the scorer",  SCORER,  PLAIN, ("POST", LEASES),               "lease.failed",  False),
]  # fmt: skip


@pytest.mark.parametrize(("program", "flags", "path", "event", "ready"), table(REFUSED))
async def test_forbidden_read_is_logged_and_may_delay_readiness(  # noqa: PLR0913  the columns of the table
    launcher: Launcher, program: str, flags: tuple[str, ...], path: Where, event: str, *, ready: bool
) -> None:
    launcher.api.failures[path] = HTTPStatus.FORBIDDEN
    async with running(launcher, program, *flags) as served:
        await served.logged(event)
        if ready:
            await served.until(served.ready)
        assert await served.ready() is ready


@every_program
async def test_unreadable_api_server_delays_readiness(launcher: Launcher, program: str) -> None:
    async def waits_for(event: str, reason: str) -> None:
        await served.logged(event)
        status, page = await served.get("/readyz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert reason in page["waiting_for"]["snapshot"]

    launcher.api.oddities[NODES] = b"<html>Bad gateway</html>"
    await launcher.api.stop()
    async with running(launcher, program, *PLAIN) as served:
        await waits_for("watch.unreachable", "cannot be reached")
        await launcher.api.start()
        await waits_for("watch.unreadable", "the list of nodes is not JSON")
        launcher.api.oddities.clear()
        await served.until(served.ready)


@pytest.mark.parametrize(
    ("program", "flags", "checks"),
    [(WEBHOOK, OWN, {"certificates", "snapshot"}), (SCORER, PLAIN, {"lease", "snapshot"})],
    ids=[WEBHOOK, SCORER],
)
async def test_silent_api_server_does_not_delay_the_end(
    tmp_path: Path, program: str, flags: tuple[str, ...], checks: set[str]
) -> None:
    ended = asyncio.Event()

    async def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    silent = Launcher(tmp_path, FakeApi(url=f"http://{host}:{port}"))
    async with running(silent, program, *flags) as served:
        status, page = await served.get("/readyz")
        began = asyncio.get_running_loop().time()
    ended.set()
    server.close()

    assert (status, page["waiting_for"].keys()) == (HTTPStatus.SERVICE_UNAVAILABLE, checks)
    assert asyncio.get_running_loop().time() - began < 5


# Files.

STRICTLY = "defaults:\n- enforce: strictly\n  warm: none\n"
INVALID = [
    # what is invalid             program, flag, the file with two mistakes
    ("a policy of the webhook",   WEBHOOK, "--policy",  STRICTLY),
    ("a policy of the scorer",    SCORER,  "--policy",  STRICTLY),
    ("a strategy of the scorer",  SCORER,  "--ranking", "strategies: [Most, Least]\n"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "flag", "text"), table(INVALID))
async def test_invalid_or_missing_file_prevents_the_start(
    launcher: Launcher, program: str, flag: str, text: str
) -> None:
    file = launcher.file("wrong.yaml", text)
    with pytest.raises(BadInput) as raised:
        await built(launcher, program, *launcher.kubeconfig(), *PLAIN, flag, file).serve(Stop())
    assert len(raised.value.mistakes) == 2
    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await built(launcher, program, *PLAIN, "--kubeconfig", f"{launcher.folder}/none").serve(Stop())
    assert launcher.journal.of("server.listening") == []


# Processes.


async def started(module: str, *argv: object) -> Process:
    words = [sys.executable, "-m", module, *map(str, argv)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NUMALIGN_")}
    return await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ, stdout=PIPE, stderr=PIPE)


FOUR_GPUS = "cpu=2 mem=1Gi gpu=4"
CALLS: Mapping[str, tuple[str, object]] = {
    WEBHOOK: ("/validate", request(raw(FOUR_GPUS, policy=SINGLE))),
    SCORER: ("/filter", {"Pod": pod(FOUR_GPUS), "NodeNames": ["a", "b"]}),
}


async def logged(process: Process, event: str) -> dict[str, Any]:
    """Read the log up to a line of an event."""
    assert process.stderr
    while line := await process.stderr.readline():
        read: dict[str, Any] = orjson.loads(line)
        if read["event"] == event:
            return read
    pytest.fail(f"no {event} before the end")


@every_program
async def test_process_answers_over_tls_until_sigterm(tmp_path: Path, program: str) -> None:
    cluster = Webhook(tmp_path / "cluster.json")
    cluster.put({"a": SMALL}, team={})
    pair = authority.issue(names=["localhost", "127.0.0.1"], days=1, now=datetime.now(UTC))
    files = authority.write(pair, tmp_path / "tls")
    trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(files.ca)))
    flags = ["--tls-cert", files.cert, "--tls-key", files.key, "--snapshot-reload-seconds", 0.05]
    process = await started(program, *LOCAL, "--snapshot", cluster.path, *flags)
    base = f"https://127.0.0.1:{(await logged(process, 'server.listening'))['port']}"
    path, call = CALLS[program]
    headers = {"Content-Type": "application/json"}

    async with aiohttp.ClientSession(base, connector=trust, headers=headers) as session:
        for members in ({"a": SMALL}, {"a": SMALL, "b": LARGE}):
            cluster.put(members, team={})
            await answer_with(session, path, call, fits="b" in members)
    process.send_signal(signal.SIGTERM)
    _, rest = await process.communicate()

    assert process.returncode == 0
    assert orjson.loads(rest.splitlines()[-1])["event"] == "server.stopped"


async def answer_with(session: aiohttp.ClientSession, path: str, call: object, *, fits: bool) -> None:
    """Call until the pod fits or does not."""
    for _ in range(600):
        async with session.post(path, data=orjson.dumps(call)) as answer:
            document = await answer.json()
        if bool(document.get("NodeNames") or document.get("response", {}).get("allowed")) is fits:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"the answer did not change: {document}")


def test_every_mistake_in_settings_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--injection", "maybe", "--port", "high", "--snapshoot", "x")
    monkeypatch.setattr(sys, "argv", [PROGRAM, *flags])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    output, text = capsys.readouterr()
    assert output == ""
    assert text.startswith("numalign-webhook: ")
    assert [flag for flag in ("--injection", "--port", "--snapshoot", "--tls-cert") if flag not in text] == []
    assert text.endswith("numalign-webhook --help lists every setting\n")


async def test_process_logs_every_mistake_in_its_files(tmp_path: Path) -> None:
    wrong = tmp_path / "ranking.yaml"
    wrong.write_text("strategies: [Best]\n")
    process = await started("scorer", *LOCAL, *PLAIN, "--ranking", wrong, "--snapshot", tmp_path / "none")
    _, listed = await process.communicate()
    line = orjson.loads(listed.splitlines()[-1])

    assert (process.returncode, line["event"]) == (2, "server.start_failed")
    assert "Best" in str(line["errors"])
