"""Talks to the kubelet's own managers, so that a test can ask for their decisions.

The managers can start a computation that takes practically for ever (merging the hints of three resources
over eight zones), and a kubelet would not notice. Here, calls return in time or raise `Hung`.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any, Self

Json = dict[str, Any]

# The managers write their checkpoints there, and wait until they are on disk. In memory, they need not wait.
MEMORY = Path("/dev/shm")  # noqa: S108 - only the parent of a folder with a name of its own


class Hung(Exception):
    """Raised if there is no answer in time. The program was ended, and its node is lost."""


class Ended(Exception):
    """Raised if the program ended by itself; its node is lost."""


class Mistaken(Exception):
    """Raised if the program could not read a request, or had no node for it."""


class Managers:
    """The managers of one kubelet at a time: a context manager, which ends the program.

    `seconds` is the longest time to wait for an answer. The program is started when it is first needed, and
    again after it had to be ended.
    """

    def __init__(self, binary: Path, *, seconds: float = 8) -> None:
        self._binary = binary
        self._seconds = seconds
        self._running: subprocess.Popen[bytes] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def node(self, spec: Mapping[str, Any]) -> str | None:
        """Start again with this empty node; return None, or the kubelet's error if it refuses to start."""
        refused: str | None = self._ask({"node": spec}).get("refused")
        return refused

    def create(self, pod: Mapping[str, Any]) -> Json:
        """Return the decision of the managers: the format of `expect` in the recordings, and the pod's name.

        If they panicked, `panicked` is the reason, and the node is lost.
        """
        return self._ask({"create": pod})

    def delete(self, name: str) -> None:
        """Delete a pod; an unknown name changes nothing."""
        self._send({"delete": name})

    def end(self) -> None:
        self._running = None
        # What could not be written to it before cannot be written now either.
        with suppress(BrokenPipeError):
            self._open.close()

    def _ask(self, line: Json) -> Json:
        process, late = self._send(line), Event()
        assert process.stdout

        def expire() -> None:
            late.set()
            process.kill()

        timer = Timer(self._seconds, expire)
        timer.start()
        text = process.stdout.readline()
        timer.cancel()
        if late.is_set():
            self.end()
            raise Hung(f"no answer in {self._seconds:g} s")
        if not text:
            raise self._ended(process)
        answer: Json = json.loads(text)
        if "error" in answer:
            raise Mistaken(answer["error"])
        return answer

    def _send(self, line: Json) -> subprocess.Popen[bytes]:
        process = self._running = self._running or self._start()
        assert process.stdin
        try:
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(process) from None
        return process

    def _ended(self, process: subprocess.Popen[bytes]) -> Ended:
        assert process.stderr
        words = process.stderr.read().decode(errors="replace").strip()[:2000]
        error = Ended(f"exit code {process.wait()}: {words}")
        self.end()
        return error

    def _start(self) -> subprocess.Popen[bytes]:
        parent = MEMORY if MEMORY.is_dir() else None
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="numalign-", dir=parent))
        pipe, environment = subprocess.PIPE, os.environ | {"TMPDIR": folder}
        process = self._open.enter_context(
            subprocess.Popen(  # noqa: S603 - the caller names the program
                [self._binary, "-with-parent"], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
        )
        self._open.callback(process.kill)
        return process
