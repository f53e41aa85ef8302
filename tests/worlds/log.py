"""A log whose lines a test reads."""

import io
import json
from dataclasses import dataclass, field
from typing import Any

from numalign.runtime import logs


@dataclass
class RecordedLog:
    """A log in JSON at level debug, and its lines."""

    stream: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.log = logs.to(self.stream, level="debug", form="json")

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]
