"""Options come through as they were handed over, and leave nothing behind."""

import os
from dataclasses import replace
from errno import EBADF
from pathlib import Path

import pytest

from agent import options
from agent.options import AgentOptions
from agent.publish import Publish
from numalign.kube.access import Access

GIVEN = AgentOptions(
    access=Access("https://10.0.0.1:443", authority="/ca.crt", token="secret"),  # noqa: S106  of no server
    node_name="a", podresources_socket=Path("/run/kubelet.sock"), kubelet_state=Path("/var/lib/kubelet"),
    sysfs=Path("/sys"), node_address="10.0.0.2", kubelet_port=10250, kubelet_ca=None,
    kubelet_config=Path("/etc/kubelet.yaml"), publish=Publish.IF_ABSENT, annotate_pods=True, output=None,
    once=False, resync_seconds=60.0, heartbeat_seconds=300.0, bind="*", metrics_port=8080,
    log_level="info", log_format="json",
)  # fmt: skip


@pytest.mark.parametrize(
    "given", [GIVEN, replace(GIVEN, access=None, kubelet_config=None, publish=Publish.NEVER)]
)
def test_options_are_taken_over_as_they_were_handed_over(given: AgentOptions) -> None:
    descriptor = options.hand_over(given)
    assert os.get_inheritable(descriptor)
    assert options.take_over(descriptor) == given
    with pytest.raises(OSError, match=f"{EBADF}"):
        os.fstat(descriptor)
