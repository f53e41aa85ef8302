"""
The bundled pods, and the comment above each of them.

The comments say what to expect, and the demo compares that with the result: the words of the outcome, and the
nodes that the injected affinity excludes.

    BadInput
    └── BadStory    a pod without a comment that says what it shows and what to expect
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kubectl_numa.demo import DATA
from numalign.model.errors import BadInput, Mistake

CLUSTER = "cluster.yaml"
PODS = "pods.yaml"

_STORY = re.compile(
    r"^# Shows: (?P<shows>.+?)\n# Expected: (?P<expected>.+?)\n(?!#)", re.DOTALL | re.MULTILINE
)
_BRACKETS = re.compile(r"\([^)]*\)")
_AWAY = re.compile(r"keeps? away from (?P<all>all known nodes except )?(?P<names>.*)")


class BadStory(BadInput):
    """Raised if a bundled pod has no comment that says what it shows and what to expect."""


@dataclass(frozen=True, slots=True)
class Story:
    """One bundled pod: its manifest, what it shows, and what to expect of it."""

    manifest: dict[str, Any]
    shows: str
    expected: str

    @property
    def outcome(self) -> frozenset[str]:
        """The expected words of the outcome: those before the semicolon."""
        return frozenset(self.expected.rstrip(".").partition(";")[0].split(", "))

    def keeps_away_from(self, known: Collection[str]) -> frozenset[str]:
        """Return the nodes that the affinity should exclude, of the `known` nodes."""
        away = _AWAY.search(_BRACKETS.sub("", self.expected))
        if not away:
            return frozenset()
        named = frozenset(re.findall(r"[a-z0-9-]+", away["names"])) & frozenset(known)
        return frozenset(known) - named if away["all"] else named


def stories(text: str) -> Iterator[Story]:
    """Yield every pod of a file in the form of the bundled one; raises `BadStory`."""
    for number, document in enumerate(re.split(r"^---\n", text, flags=re.MULTILINE), start=1):
        comment = _STORY.search(document)
        if not comment:
            message = 'needs a comment "# Shows: ..." followed by "# Expected: ..."'
            raise BadStory([Mistake(f"{PODS}, document {number}", message)])
        manifest = yaml.load(document, yaml.CSafeLoader)
        yield Story(manifest, _joined(comment["shows"]), _joined(comment["expected"]))


def read(name: str) -> str:
    """Return the text of a bundled file."""
    return (DATA / name).read_text(encoding="utf-8")


def _joined(comment: str) -> str:
    return " ".join(comment.replace("\n#", " ").split())
