"""Talks with the companion of a kubelet: its container runtime and its device plugins, in one program."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.processes import open_log

Json = dict[str, Any]

Devices = Mapping[str, Sequence[Mapping[str, Any]]]
"""By resource the devices that its plugin lists: `{"id": "gpu-0", "zones": [0], "healthy": True}`, healthy
if it does not say. A resource that is left out has no plugin."""

SECONDS = 20
"""How long an answer may take."""


class Broken(Exception):
    """A companion ended, did not answer in time, or could not read what it was told."""


class Companion:
    """One node's. `runtime` is the socket that it serves as the container runtime.

    It ends with the standard input that it reads, and so does not outlive this process.
    """

    def __init__(self, program: Path, *, runtime: Path, plugins: Path, log: Path) -> None:
        self.runtime = runtime
        self._command = (str(program), "-runtime", str(runtime), "-plugins", str(plugins))
        self._log = log
        self._asking = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the running program."""
        return self._running().pid

    async def start(self) -> None:
        """Returns when the container runtime can be asked."""
        with open_log(self._log) as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        await self._answer()

    async def hold(self, devices: Devices) -> bool:
        """Have these devices, and no others: whether a kubelet knows all plugins; if not, the next will."""
        async with self._asking:
            process = self._running()
            assert process.stdin
            process.stdin.write(json.dumps({"devices": devices}).encode() + b"\n")
            registered: bool = (await self._answer())["registered"]
        return registered

    async def end(self) -> None:
        """The runtime and all plugins are gone at once, and with them what the runtime knew."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def _answer(self) -> Json:
        process = self._running()
        assert process.stdout
        try:
            line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        except TimeoutError:
            raise Broken(f"the companion did not answer in {SECONDS} s; it wrote to {self._log}") from None
        if not line:
            raise Broken(f"the companion ended with {await process.wait()}; it wrote to {self._log}")
        said: Json = json.loads(line)
        if "error" in said:
            raise Broken(said["error"])
        return said

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise Broken("the companion does not run")
        return self._process
