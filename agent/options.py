"""
The settings as the first stage passes them to the daemon: checked, and readable without a library.

They contain a token if the kubeconfig does. So they are passed in an unnamed file, never in arguments or the
environment.
"""

import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from numalign.kube.access import Access


class Publish(StrEnum):
    """When the zones are written; the annotations always are."""

    IF_ABSENT = "if-absent"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The fields of `AgentSettings` of the same names, but `bind` is None for all addresses."""

    # None if no API server is read or written.
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


def hand_over(options: AgentOptions) -> int:
    """Return an open file with the options, for the program that replaces this one."""
    descriptor = os.memfd_create("options", 0)
    os.write(descriptor, orjson.dumps(asdict(options), default=str))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def take_over(descriptor: int) -> AgentOptions:
    """Return the options that `hand_over` wrote into this open file, and close it."""
    with os.fdopen(descriptor, "rb") as file:
        values: dict[str, Any] = orjson.loads(file.read())
    values["access"] = Access(**values["access"]) if values["access"] else None
    values["publish"] = Publish(values["publish"])
    for name in ("podresources_socket", "kubelet_state", "sysfs", "kubelet_ca", "kubelet_config"):
        values[name] = None if values[name] is None else Path(values[name])
    return AgentOptions(**values)
