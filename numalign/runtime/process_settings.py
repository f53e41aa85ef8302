"""
What every program that goes on running can be told: where it tells of itself, and how it logs.

The names are the same in every program, so that one chart and one habit serve all. What is imported here is
little, for one program runs on every node.
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
    """Where to listen, and the names of the settings that say so; port 0 takes any free one.

    `bind_name` is empty where the address cannot be chosen.
    """

    bind: str
    port: int
    bind_name: str = BIND
    port_name: str = METRICS_PORT

    def __str__(self) -> str:
        """The flags that say so."""
        bind = f"{sources.flag(self.bind_name)} {self.bind} " if self.bind_name else ""
        return f"{bind}{sources.flag(self.port_name)} {self.port}"


class ProcessSettings(Settings):
    """The process."""

    bind: str = Field(
        default=EVERYWHERE,
        description="Address to listen on, or * for all of them, IPv4 and IPv6. Whoever calls, if only"
        " Prometheus, comes from another machine, so all is the default; 127.0.0.1 keeps a laptop to itself.",
    )
    metrics_port: int = Field(
        default=8080,
        ge=0,
        le=65535,
        description="Port for health, readiness and metrics (/healthz, /readyz, /metrics), in plain HTTP. 0"
        " takes a free one and the log line server.listening tells which. It is not the port for calls, so"
        " that a network policy can let Prometheus in without letting it call.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Minimum level of log lines. info logs each notable decision.",
    )
    log_format: Literal["json", "text"] = Field(
        default="json",
        description="One JSON object per line for collectors, or text for a terminal.",
    )

    @property
    def metrics_address(self) -> ListenAddress:
        """Where the process tells of its health, and what it counts."""
        return ListenAddress(self.bind, self.metrics_port)
