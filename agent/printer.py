"""Writes what would be published to a file or standard output, and nothing into a cluster."""

import asyncio
import sys
from pathlib import Path

import orjson

from agent.report import NodeReport, document
from numalign.kube.errors import Unconfigured

STANDARD_OUTPUT = "-"


class Printer:
    """Writes a node's topology as JSON: to standard output line by line, or to a file, replacing it."""

    unsettled = False

    def __init__(self, node: str, output: str) -> None:
        self._node = node
        self._output = output

    async def publish(self, report: NodeReport) -> None:
        """Write a report; raise `Unconfigured` if the file cannot be written."""
        line = orjson.dumps(document(self._node, report)).decode() + "\n"
        if self._output == STANDARD_OUTPUT:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        try:
            await asyncio.to_thread(Path(self._output).write_text, line)
        except OSError as error:
            raise Unconfigured(f"{self._output} cannot be written: {error}") from error
