"""
The scorer, with a profile of the processor time that it uses.

    python -m tools.bench.sampled_scorer FILE FLAG...

runs `numalign-scorer` with these flags. From SIGUSR1 on, it samples its own stack after each millisecond of
processor time, user's and kernel's, and counts the sample for the innermost part of the program on the stack;
at SIGUSR2, it writes the counts to the file. Sampling takes about a hundredth of the time.
"""

import asyncio
import heapq
import signal
import sys
import time
from asyncio import events
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import orjson

from scorer.__main__ import main as scorer

EVERY_SECONDS = 0.001
LONGEST = 10
"""How many of the longest steps of the event loop are reported."""

OTHERS = "event loop, sockets"

PARTS: Sequence[tuple[str, str, str]] = (
    ("prometheus_client/", "", "metrics"),
    ("numalign/runtime/logs.py", "", "logs"),
    ("/logging/__init__.py", "", "logs"),
    ("scorer/extender_protocol.py", "", "reading and writing calls"),
    ("numalign/kube/decode/pod_reader.py", "", "reading pods"),
    ("numalign/scheduling/scheduler_state.py", "pending_pod", "reading pods"),
    ("numalign/kube/pod_informer.py", "", "watch: pods"),
    ("numalign/kube/informer.py", "", "watch: events"),
    ("numalign/kube/kinds.py", "", "watch: events"),
    ("numalign/kube/client.py", "lines", "watch: events"),
    ("numalign/kube/bindings.py", "", "bind: the call to the API server"),
    ("numalign/ledger/", "", "ledger"),
    ("numalign/kubelet/", "", "rules"),
    ("numalign/decision/", "", "rules"),
    ("numalign/cache/scheduler_cache.py", "", "cache: refresh"),
    ("numalign/cache/", "", "cache: evaluation"),
    ("scorer/__main__.py", "", OTHERS),
    ("numalign/runtime/server.py", "", OTHERS),
    ("scorer/", "", "scorer: handlers, binding"),
    ("numalign/runtime/", "", "server: calls, limits"),
    ("aiohttp/web", "", "server: HTTP"),
    ("aiohttp/http_writer.py", "", "server: HTTP"),
)
"""The part for which a module or, if one is named, a function counts: that of the first row that fits the
innermost frame that fits any.
"""


@dataclass(slots=True)
class Sampler:
    """Counts samples by part, and notes the longest steps of the event loop."""

    file: Path
    looks: Counter[str] = field(default_factory=Counter)
    longest: list[tuple[float, str]] = field(default_factory=list)
    _cpu: float = 0.0

    def begin(self, _number: int, _frame: FrameType | None) -> None:
        """Sample from now on."""
        self.looks.clear()
        self.longest.clear()
        self._cpu = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)

    def look(self, _number: int, frame: FrameType | None) -> None:
        """Count the part that the program is in."""
        self.looks[part_of(frame)] += 1

    def end(self, _number: int, _frame: FrameType | None) -> None:
        """Stop, and write the counts."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        found = {
            "cpu": time.process_time() - self._cpu,
            "looks": dict(self.looks),
            "longest": sorted(self.longest),
        }
        unfinished = self.file.with_suffix(".unfinished")
        unfinished.write_bytes(orjson.dumps(found))
        unfinished.rename(self.file)

    def note(self, seconds: float, handle: asyncio.Handle) -> None:
        """Note how long a step of the event loop took."""
        if len(self.longest) < LONGEST:
            heapq.heappush(self.longest, (seconds, _callback(handle)))
        elif seconds > self.longest[0][0]:
            heapq.heapreplace(self.longest, (seconds, _callback(handle)))


def _callback(handle: asyncio.Handle) -> str:
    """Return what a step of the event loop called; for a task, its coroutine."""
    callback = handle._callback  # type: ignore[attr-defined]  # noqa: SLF001  asyncio's debug mode shows it too
    owner = getattr(callback, "__self__", None)
    called = owner.get_coro() if isinstance(owner, asyncio.Task) else callback
    return str(getattr(called, "__qualname__", called))


def part_of(frame: FrameType | None) -> str:
    """Return the part that a stack counts for."""
    while frame is not None:
        for module, function, part in PARTS:
            if module in frame.f_code.co_filename and function in ("", frame.f_code.co_name):
                return part
        frame = frame.f_back
    return OTHERS


def main(arguments: Sequence[str]) -> int:
    """Run the scorer until it ends; return its exit code."""
    file, *flags = arguments
    sampler = Sampler(Path(file))
    for number, handler in (
        (signal.SIGUSR1, sampler.begin),
        (signal.SIGUSR2, sampler.end),
        (signal.SIGPROF, sampler.look),
    ):
        signal.signal(number, handler)
    _time_steps(sampler)
    sys.argv[1:] = flags
    return scorer()


def _time_steps(sampler: Sampler) -> None:
    """Time every step of the event loop; asyncio does so only in its debug mode, which is slow.

    Only the step's CPU time counts, not the time for which it waited for a CPU.
    """
    run = events.Handle._run  # noqa: SLF001  as above

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        sampler.note(time.thread_time() - began, handle)

    events.Handle._run = timed  # type: ignore[assignment,method-assign]  # noqa: SLF001  as above


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
