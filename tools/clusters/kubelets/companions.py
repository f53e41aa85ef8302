"""Talks to the companion of a kubelet: its container runtime and its device plugins, in one program."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.clusters.processes import open_log

Json = dict[str, Any]

Devices = Mapping[str, Sequence[Mapping[str, Any]]]
"""The devices that each resource's plugin lists, such as `{"id": "gpu-0", "zones": [0], "healthy": True}`;
the default is healthy. A missing resource has no plugin."""

SECONDS = 20


class Broken(Exception):
    """Raised if a companion ended, did not answer in time, or could not read a request."""


class Companion:
    """The companion of a node. `runtime` is the socket of its container runtime.

    The program ends when its standard input closes, so it does not outlive this process.
    """

    def __init__(self, program: Path, *, runtime: Path, plugins: Path, log: Path) -> None:
        self.runtime = runtime
        self._command = (str(program), "-runtime", str(runtime), "-plugins", str(plugins))
        self._log = log
        self._asking = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        """Start the program, and return when the container runtime can be called."""
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
        """Set the devices, and return whether a kubelet knows all plugins; if not, the next one will."""
        async with self._asking:
            process = self._running()
            assert process.stdin
            process.stdin.write(json.dumps({"devices": devices}).encode() + b"\n")
            registered: bool = (await self._answer())["registered"]
        return registered

    async def end(self) -> None:
        """Kill the runtime and all plugins at once; the state of the runtime is lost."""
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
