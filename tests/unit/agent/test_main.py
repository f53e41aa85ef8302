"""The first stage: settings, where the API server is, and what the daemon takes over of both."""

import os
from errno import EBADF
from pathlib import Path

import pytest

from agent import options
from agent.__main__ import checked, with_pod_variables
from agent.options import Publish
from agent.settings import AgentSettings
from numalign.kube.errors import Unconfigured
from numalign.runtime.settings import load
from tools.clusters.fake_api import FakeApi

NOWHERE = "/nowhere/kubeconfig"


@pytest.fixture(autouse=True)
def _homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def settings(*flags: str, **environ: str) -> AgentSettings:
    return load(AgentSettings, argv=["--node-name=a", *flags], environ=with_pod_variables(environ)).settings


def test_node_name_comes_from_the_downward_api() -> None:
    environ = with_pod_variables({"NODE_NAME": "b", "NODE_ADDRESS": "10.0.0.2", "OTHER": "c"})
    found = load(AgentSettings, argv=[], environ=environ).settings
    assert (found.node_name, found.node_address) == ("b", "10.0.0.2")
    assert with_pod_variables({"NODE_NAME": "b", "NUMALIGN_NODE_NAME": "c"})["NUMALIGN_NODE_NAME"] == "c"


def test_defaults_fit_a_kubelet_and_yield_to_exporters() -> None:
    found = settings()
    assert found.podresources_socket == Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    assert (found.publish, found.resync_seconds, found.heartbeat_seconds) == (Publish.IF_ABSENT, 60, 300)


def test_daemon_gets_all_settings_but_the_kubeconfig(tmp_path: Path) -> None:
    api = FakeApi(url="https://10.0.0.1:6443", token="let-me-in")  # noqa: S106  of no server
    path = api.kubeconfig(tmp_path / "kubeconfig")
    options_read = checked(settings(f"--kubeconfig={path}", "--publish=always", "--sysfs=sys"), {})
    assert options_read.access
    assert (options_read.access.host, options_read.access.token) == ("https://10.0.0.1:6443", "let-me-in")
    assert (options_read.publish, options_read.bind) == (Publish.ALWAYS, None)
    assert options_read.sysfs == Path.cwd() / "sys"
    descriptor = options.hand_over(options_read)
    assert os.get_inheritable(descriptor)
    assert options.take_over(descriptor) == options_read
    with pytest.raises(OSError, match=f"{EBADF}"):
        os.fstat(descriptor)


def test_what_is_printed_needs_no_api_server() -> None:
    printing = checked(settings("--output=-"), {})
    assert printing.access is None
    assert options.take_over(options.hand_over(printing)) == printing
    with pytest.raises(Unconfigured):
        checked(settings(), {})
    with pytest.raises(Unconfigured):
        checked(settings("--output=-", f"--kubeconfig={NOWHERE}"), {})
