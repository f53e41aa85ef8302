"""Talks with the kubelet's own managers, so that a test can ask them what they would do next.

The managers can fall into a computation that does not end in a lifetime (merging the hints of three
resources over eight zones), and no kubelet would ever know. Whoever asks here gets an answer in time, or
`Hung`.
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
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]

# Where the managers write their checkpoints, and wait until these are on disk. In memory they need not wait.
MEMORY = Path("/dev/shm")  # noqa: S108 - only the parent of a folder with a name of its own
BLOCK = 1 << 16


class Hung(Exception):
    """No answer in time. The program was ended; the node it held is gone."""


class Ended(Exception):
    """The program ended by itself; the node it held is gone."""


class Mistaken(Exception):
    """The program could not read what it was asked, or had no node to ask it of."""


class Managers:
    """The managers of one kubelet at a time: a context manager, which ends the program.

    `seconds` is how long one answer may take. The program is started when it is first needed, and again
    after it had to be ended.
    """

    def __init__(self, binary: Path, *, seconds: float = 8) -> None:
        self._binary = binary
        self._seconds = seconds
        self._running: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def node(self, spec: Mapping[str, Any]) -> str | None:
        """Starts over with this node, empty: None, or what the kubelet says if it refuses to start."""
        answer = self._ask({"node": spec})
        refused: str | None = answer.get("refused")
        return refused

    def create(self, pod: Mapping[str, Any]) -> Json:
        """What the managers decide: the shape of `expect` in the recordings, and the name of the pod.

        If they panicked, `panicked` says over what, and the node is gone.
        """
        return self._ask({"create": pod})

    def delete(self, name: str) -> None:
        """The pod is gone; a name that nobody bears changes nothing."""
        with self._or_end():
            self._tell({"delete": name})

    def end(self) -> None:
        """Ends the program, whatever it is doing, and removes what it wrote."""
        self._running, self._unread = None, b""
        # What could not be said to it before cannot be said now either.
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
            block = os.read(pipe.fileno(), BLOCK)
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
