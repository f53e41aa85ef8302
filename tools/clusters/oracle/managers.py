"""Talks to the kubelet's own managers, so that a test can ask for their decisions.

The managers can start a computation that takes practically for ever (merging the hints of three resources
over eight zones), and a kubelet would not notice. Here, calls return in time or raise `Hung`.
"""

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
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
        self._unread = b""
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def node(self, spec: Mapping[str, Any]) -> str | None:
        """Start again with this empty node; return None, or the kubelet's error if it refuses to start."""
        answer = self._ask({"node": spec})
        refused: str | None = answer.get("refused")
        return refused

    def create(self, pod: Mapping[str, Any]) -> Json:
        """Return the decision of the managers: the format of `expect` in the recordings, and the pod's name.

        If they panicked, `panicked` is the reason, and the node is lost.
        """
        return self._ask({"create": pod})

    def delete(self, name: str) -> None:
        """Delete a pod; an unknown name changes nothing."""
        with self._or_end():
            self._tell({"delete": name})

    def end(self) -> None:
        self._running, self._unread = None, b""
        # What could not be written to it before cannot be written now either.
        with suppress(BrokenPipeError):
            self._open.close()

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        try:
            yield
        except (Hung, Ended):
            self.end()
            raise

    def _ask(self, line: Json) -> Json:
        with self._or_end():
            self._tell(line)
            answer: Json = json.loads(self._answer(monotonic() + self._seconds))
        if "error" in answer:
            raise Mistaken(answer["error"])
        return answer

    def _tell(self, line: Json) -> None:
        pipe = self._process().stdin
        assert pipe
        try:
            pipe.write(json.dumps(line).encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            raise Ended(self._last_words()) from None

    def _answer(self, deadline: float) -> bytes:
        pipe = self._process().stdout
        assert pipe
        while b"\n" not in self._unread:
            left = deadline - monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise Hung(f"no answer in {self._seconds:g} s")
            block = os.read(pipe.fileno(), 1 << 16)
            if not block:
                raise Ended(self._last_words())
            self._unread += block
        answer, _, self._unread = self._unread.partition(b"\n")
        return answer

    def _last_words(self) -> str:
        process = self._process()
        log = process.stderr
        assert log
        return f"exit code {process.wait()}: {log.read().decode(errors='replace').strip()[:2000]}"

    def _process(self) -> subprocess.Popen[bytes]:
        self._running = self._running or self._start()
        return self._running

    def _start(self) -> subprocess.Popen[bytes]:
        parent = MEMORY if MEMORY.is_dir() else None
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="numalign-", dir=parent))
        process = self._open.enter_context(
            subprocess.Popen(  # noqa: S603 - the caller names the program
                [self._binary, "-with-parent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"TMPDIR": folder},
            )
        )
        self._open.callback(process.kill)
        return process
