"""The programs of numalign as separate processes, so that what is measured is what runs in a cluster."""

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.bench.figures import Histogram

LONGEST_START = 60
UNCALLED = frozenset({"controller"})
"""Programs that serve only health and metrics."""

_LAG = re.compile(r'^numalign_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Server:
    """A program that listens on 127.0.0.1; `starting` is the time until it does, in seconds."""

    process: subprocess.Popen[bytes]
    port: int
    metrics_port: int
    starting: float

    def metrics(self) -> str:
        """Return its current metrics."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.metrics_port, 60)) as connection:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()

    def loop_lag(self) -> Histogram:
        """Return the lag of its event loop so far, as it measures that itself; empty if it does not."""
        counts = _LAG.findall(self.metrics())
        return Histogram.cumulative({float(bound): float(count) for bound, count in counts})

    def memory(self) -> dict[str, float]:
        """Return its resident memory now and at the peak, in MiB, as the kernel counts it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        kib = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status))
        return {"now": int(kib["VmRSS"]) / _KIB, "most": int(kib["VmHWM"]) / _KIB}

    def processor_seconds(self) -> float:
        """Return the processor time that it has used so far, in seconds."""
        return processor_seconds(self.process.pid)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A ready webhook, and the CA that signed its certificate."""

    server: Server
    ca: Path

    def connection(self) -> http.client.HTTPSConnection:
        """Return a connection that is kept alive."""
        trust = ssl.create_default_context(cafile=str(self.ca))
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=trust, timeout=60)

    def metrics(self) -> str:
        """Return its current metrics."""
        return self.server.metrics()


def processor_seconds(pid: int) -> float:
    """Return the user and system time of a process so far, in seconds (proc(5), `stat`)."""
    # The name of the program, in parentheses, may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def started(module: str, settings: Mapping[str, object], *more: str, folder: Path) -> Iterator[Server]:
    """Run `python -m module` with these settings and `more` flags; the port of an `UNCALLED` program is 0.

    Raise `RuntimeError` with its log if it does not listen.
    """
    called = {} if module in UNCALLED else {"--port": 0}
    flags = {**settings, **called, "--bind": "127.0.0.1", "--metrics-port": 0}
    words = [sys.executable, "-m", module, *(str(word) for pair in flags.items() for word in pair), *more]
    with (folder / "log").open("wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(words, stderr=log)  # noqa: S603 - our own program
        try:
            port, metrics_port = _ports(process, folder / "log")
            yield Server(process, port, metrics_port, time.perf_counter() - began)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _ports(process: subprocess.Popen[bytes], log: Path) -> tuple[int, int]:
    """Return the ports for calls and for metrics from its log; by then it has read its snapshot."""
    until = time.monotonic() + LONGEST_START
    while time.monotonic() < until and process.poll() is None:
        for line in log.read_bytes().splitlines(keepends=True):
            event = json.loads(line) if line.endswith(b"\n") else {}
            if event.get("event") == "server.listening":
                return int(event.get("port", 0)), int(event["metrics_port"])
        time.sleep(0.01)
    raise RuntimeError(f"the program did not start:\n{log.read_text(encoding='utf-8')}")
