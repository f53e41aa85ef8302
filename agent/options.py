"""
The settings as the first stage hands them to the daemon: checked, and in values that need no library to read.

They hold a token where a kubeconfig has one, and so they go through a file without a name, never through
arguments or the environment.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from agent.publish import Publish
from numalign.kube.access import Access


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the daemon is told; `access` is None where nothing is asked of an API server or written to it.

    `bind` is None for all addresses. The other fields are those of `AgentSettings` by the same names.
    """

    access: Access | None
    node_name: str
    podresources_socket: Path
    kubelet_state: Path
    sysfs: Path
    node_address: str | None
    kubelet_port: int
    kubelet_ca: Path | None
    kubelet_config: Path | None
    publish: Publish
    annotate_pods: bool
    output: str | None
    once: bool
    resync_seconds: float
    heartbeat_seconds: float
    bind: str | None
    metrics_port: int
    log_level: str
    log_format: str


_PATHS = ("podresources_socket", "kubelet_state", "sysfs", "kubelet_ca", "kubelet_config")


def hand_over(options: AgentOptions) -> int:
    """An open file that holds the options, for a process that takes this one's place."""
    descriptor = os.memfd_create("options", 0)
    os.write(descriptor, orjson.dumps(asdict(options), default=str))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def take_over(descriptor: int) -> AgentOptions:
    """What `hand_over` put into this open file, which is closed."""
    with os.fdopen(descriptor, "rb") as file:
        told: dict[str, Any] = orjson.loads(file.read())
    told["access"] = Access(**told["access"]) if told["access"] else None
    told["publish"] = Publish(told["publish"])
    told |= {name: Path(told[name]) for name in _PATHS if told[name] is not None}
    return AgentOptions(**told)
