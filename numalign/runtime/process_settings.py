"""
The settings of every long-running program: where it serves health and metrics, and its log.

The names are the same in every program, so that one chart fits all. The imports here are few, because one
program runs on every node.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from numalign.runtime import sources
from numalign.runtime.settings import Settings

EVERYWHERE = "*"
BIND = "bind"
METRICS_PORT = "metrics_port"
"""The name of the port for health and metrics."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on, and the names of its settings, or ""; port 0 takes any free one."""

    bind: str
    port: int
    bind_name: str = BIND
    port_name: str = METRICS_PORT

    def __str__(self) -> str:
        """Return the flags for this address."""
        bind = f"{sources.flag(self.bind_name)} {self.bind} " if self.bind_name else ""
        return f"{bind}{sources.flag(self.port_name)} {self.port}"


class ProcessSettings(Settings):
    """Listening and logging."""

    bind: str = Field(
        default=EVERYWHERE,
        description="Address to listen on, or * for all IPv4 and IPv6 addresses. The default is all, because"
        " callers (API servers, schedulers, Prometheus) run on other machines. Use 127.0.0.1 for local"
        " tests.",
    )
    metrics_port: int = Field(
        default=8080,
        ge=0,
        le=65535,
        description="Port for health, readiness and metrics (/healthz, /readyz, /metrics), in plain HTTP."
        " With 0, any free port is used; the log event server.listening shows which one. It is separate from"
        " the port for calls, so that a network policy can admit Prometheus to metrics only.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level of log lines. info includes every notable decision."
    )
    log_format: Literal["json", "text"] = Field(
        default="json",
        description="Format of log lines: json writes one JSON object per line,"
        " text is meant for a terminal.",
    )

    @property
    def metrics_address(self) -> ListenAddress:
        """Where the process serves its health and metrics."""
        return ListenAddress(self.bind, self.metrics_port)
