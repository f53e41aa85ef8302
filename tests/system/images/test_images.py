"""The images run as the pods of the chart do, and their containers can write nothing but /tmp."""

import asyncio
import shutil
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from certs import authority
from tests.system.images.bundles import Bundle, unpacked
from tests.system.images.conftest import ROOT, VERSION, Images
from tools.clusters.processes import Children, answers, free_port, until
from tools.generate.manifests import Installation, everything

BIN = "/opt/numalign/bin"
PROGRAMS = ("numalign-webhook", "numalign-scorer", "numalign-controller", "numalign-certs", "kubectl-numa")
SNAPSHOT = ROOT / "examples" / "data" / "cluster.yaml"

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def context() -> dict[str, Any]:
    """Return the security context of the webhook's container in the chart."""
    found: dict[str, Any] = Installation(everything()).container("numalign-webhook")["securityContext"]
    return found


@pytest.fixture(scope="module")
def webhook(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return unpacked(images.layout("numalign-webhook"), VERSION, tmp_path_factory.mktemp("webhook"))


@pytest.fixture(scope="module")
def agent(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return unpacked(images.layout("numalign-agent"), VERSION, tmp_path_factory.mktemp("agent"))


@pytest.fixture
def confined(webhook: Bundle, context: dict[str, Any], tmp_path: Path) -> Run:
    """Run a command in the webhook's image as its pod would."""
    return lambda *arguments: webhook.run(uuid4().hex, arguments, context=context, folder=tmp_path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_starts(confined: Run, program: str) -> None:
    code, output = confined(f"{BIN}/{program}", "--version")
    assert (code, output.split()[-1]) == (0, VERSION), output


def test_agent_starts_in_its_image(agent: Bundle, context: dict[str, Any], tmp_path: Path) -> None:
    code, output = agent.run(
        "agent", [f"{BIN}/numalign-agent", "--version"], context=context, folder=tmp_path
    )
    assert (code, output) == (0, f"numalign-agent {VERSION}\n")


def test_agent_image_has_no_numpy(webhook: Bundle, agent: Bundle) -> None:
    packages = "opt/numalign/lib/python3.11/site-packages"
    assert (webhook.root / packages / "numpy").is_dir()
    assert not (agent.root / packages / "numpy").exists()


@pytest.mark.parametrize("path", ["/written", "/opt/numalign/written", "/etc/passwd", "/run/written"])
def test_files_of_the_image_are_read_only(confined: Run, path: str) -> None:
    code, output = confined(f"{BIN}/python", "-c", f"open({path!r}, 'a')")
    assert code == 1
    assert "Read-only file system" in output or "Permission denied" in output


def test_user_65532_can_write_tmp(confined: Run) -> None:
    script = "import os; open('/tmp/written', 'a'); print(os.getuid(), os.getgid(), os.getgroups())"
    assert confined(f"{BIN}/python", "-c", script) == (0, "65532 65532 []\n")


def test_environment_of_programs_has_no_pip(webhook: Bundle, agent: Bundle) -> None:
    for bundle in (webhook, agent):
        assert not list((bundle.root / "opt/numalign").rglob("pip"))


def test_modules_are_compiled(confined: Run) -> None:
    script = (
        "import importlib.util, numalign.webhook.__main__ as m, asyncio, numpy, pathlib;"
        "made = [pathlib.Path(importlib.util.cache_from_source(x.__file__)) for x in (m, asyncio, numpy)];"
        "print(all(each.is_file() for each in made))"
    )
    assert confined(f"{BIN}/python", "-c", script) == (0, "True\n")


def test_tls_has_certificate_authorities(confined: Run) -> None:
    script = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 100)"
    assert confined(f"{BIN}/python", "-c", script) == (0, "True\n")


@pytest.mark.asyncio(loop_scope="session")
async def test_webhook_serves_from_a_read_only_root(
    webhook: Bundle, context: dict[str, Any], tmp_path: Path, children: Children
) -> None:
    shutil.copy(SNAPSHOT, tmp_path)
    pair = authority.write(authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC)), tmp_path)
    # For user 65532.
    tmp_path.chmod(0o755)  # noqa: ASYNC240  a folder of this test
    pair.key.chmod(0o644)
    port, metrics_port = free_port(), free_port()
    arguments = (
        *(f"{BIN}/numalign-webhook", "--snapshot=/host/cluster.yaml", "--bind=127.0.0.1"),
        *(f"--port={port}", f"--metrics-port={metrics_port}"),
        *("--tls-cert=/host/tls.crt", "--tls-key=/host/tls.key"),
    )
    command = webhook.command(uuid4().hex, arguments, context=context, folder=tmp_path)
    child = await children.start(*command, name="webhook-in-runc")
    ready = partial(answers, f"http://127.0.0.1:{metrics_port}/readyz")
    await until(ready, what="the webhook was ready", child=child)

    shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), ca_certs=str(pair.ca))
    assert shown.strip() in pair.cert.read_text()
    assert await child.stop() == 0
