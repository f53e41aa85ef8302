"""The program itself: started and ended as a kubelet does it."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import orjson
import pytest

from controller.__main__ import PROGRAM, main
from tests.worlds import webhook as world
from tests.worlds.notation import node
from tools.clusters.fake_api import FakeApi

ROOT = Path(__file__).parents[3]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases/numalign-controller"
CLUSTER = world.snapshot({"small": node(*["cpu=8 mem=8Gi gpu=1"] * 2, policy="single-numa-node")})


async def started(*argv: object) -> Process:
    words = [sys.executable, "-m", "controller", *map(str, argv)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NUMALIGN_")}
    return await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ, stdout=PIPE, stderr=PIPE)


async def test_sigterm_ends_it_and_releases_the_lease(tmp_path: Path) -> None:
    async with FakeApi() as api:
        for each in CLUSTER["items"]:
            api.put(each)
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig", namespace="numalign-system")
        local = ("--bind", "127.0.0.1", "--metrics-port", 0, "--drain-seconds", 0)
        process = await started("--kubeconfig", kubeconfig, *local)
        assert process.stderr
        while json.loads(await process.stderr.readline())["event"] != "node.labelled":
            pass
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        lease: Any = api.get(LEASE)

    assert (process.returncode, lease["spec"]["holderIdentity"]) == (0, "")


def test_dry_run_prints_changes_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(orjson.dumps(CLUSTER))
    monkeypatch.setattr(sys, "argv", [PROGRAM, "--dry-run", "--snapshot", str(path)])
    assert main() == 0
    output, logged = capsys.readouterr()

    assert logged == ""
    assert output.startswith("small: no label -> 2x8cpu-1gpu-single-numa-node")


def test_impossible_dry_run_or_setting_prints_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [PROGRAM, "--dry-run", "--kubeconfig", "/nowhere"])
    assert main() == 2
    output, error = capsys.readouterr()
    assert (output, error.partition(": ")[0]) == ("", "numalign-controller")

    monkeypatch.setattr(sys, "argv", [PROGRAM, "--metrics-port", "high", "--label-node", "--port", "1"])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    listed = capsys.readouterr().err
    assert all(flag in listed for flag in ("--metrics-port", "--label-node", "--port"))
    assert listed.endswith("numalign-controller --help lists every setting\n")
