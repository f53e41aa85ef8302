"""What the how-to guides say: their sections, and the commands and examples in these."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from tests.unit.docs.blocks import ROOT, SHELL, Fence, fences

HOW_TO = ROOT / "docs" / "how-to"
EXAMPLES = "yaml"


@dataclass(frozen=True, slots=True)
class Guide:
    """A page below docs/how-to; `name` is that of its file, without the ending."""

    name: str
    text: str

    @classmethod
    def read(cls, name: str) -> "Guide":
        return cls(name, (HOW_TO / f"{name}.md").read_text(encoding="utf-8"))

    def fences(self) -> list[Fence]:
        return list(fences(self.text))

    def blocks(self, heading: str, language: str) -> list[str]:
        """The blocks in a language of a section, without those of the sections below it."""
        inside = {fence.line + at for fence in self.fences() for at in range(fence.text.count("\n") + 1)}
        headings = [
            (number, line.lstrip("#").strip())
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.startswith("#") and number not in inside
        ]
        sections = pairwise([*headings, (len(self.text), "")])
        [(begin, end)] = [(start, stop) for (start, text), (stop, _) in sections if text == heading]
        return [each.text for each in self.fences() if each.language == language and begin < each.line < end]

    def commands(self, heading: str) -> list[str]:
        """The commands of the shell blocks of a section, each in a line."""
        return _lines(self.blocks(heading, SHELL))

    def all_commands(self) -> list[str]:
        """The commands of all shell blocks of the page, each in a line."""
        return _lines(fence.text for fence in self.fences() if fence.language == SHELL)

    def example(self, heading: str) -> Any:  # noqa: ANN401 whatever stands there
        """What the first block in YAML of a section says."""
        return yaml.safe_load(self.blocks(heading, EXAMPLES)[0])

    def examples(self) -> list[Any]:
        """Every document in YAML of the page."""
        shown = (fence.text for fence in self.fences() if fence.language == EXAMPLES)
        return [document for text in shown for document in yaml.safe_load_all(text)]


def _lines(blocks: Iterable[str]) -> list[str]:
    return re.sub(r"\s*\\\n\s*", " ", "".join(blocks)).splitlines()


def guides() -> list[Guide]:
    return [Guide.read(page.stem) for page in sorted(HOW_TO.glob("*.md"))]


def helm_values(command: str) -> list[str]:
    """The flags with values that a `helm` command sets, as `--set=name=value`; a file is left out."""
    # What a shell puts in is not to be split.
    words = shlex.split(command.replace(r"$(base64 < ca.crt | tr -d '\n')", "Q0E="))
    return [f"{flag}={value}" for flag, value in pairwise(words) if flag in {"--set", "--set-string"}]
