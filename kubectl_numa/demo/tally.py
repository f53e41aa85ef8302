"""
The outcomes of many pods, counted.

A denial names containers, classes and amounts, so no two are alike, but there are only a few causes. To count
them, the amounts in a message are replaced; the other words stay those of the webhook.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from kubectl_numa.demo.calls import PodOutcome

MESSAGE_PREFIX = "numalign: "
# What precedes the reason of the nodes that come closest, and what follows it.
_SUBJECT = re.compile(r'no node can align (?:[a-z ]+ "[^"]*"|the pod) as [a-z-]+ \([^)]*\): \d+ ')
_END = re.compile(r"(?:, \d+ |(?<=[a-z0-9)\"])[.;:](?= |$)).*", re.DOTALL)
_ONE = re.compile(r"^has\b")
_AMOUNT = re.compile(r"\b\d+(?:\.\d+)?(?:m|[KMGT]i)?\b(?= (?!NUMA zone|nodes))")


@dataclass(slots=True)
class OutcomeCounts:
    """Counts that grow as outcomes arrive; patched and warned are parts of admitted."""

    words: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)

    def add(self, answer: PodOutcome) -> None:
        """Count one outcome."""
        self.words.update(["reviewed", *answer.outcome])
        self.warnings.update(warning.removeprefix(MESSAGE_PREFIX) for warning in answer.warnings)
        if answer.outcome == {"admitted"}:
            self.words["untouched"] += 1
        if answer.stored is None:
            self.causes[cause(answer.message)] += 1

    def plus(self, other: "OutcomeCounts") -> "OutcomeCounts":
        """Return the sum of both."""
        return OutcomeCounts(
            self.words + other.words, self.causes + other.causes, self.warnings + other.warnings
        )

    def __str__(self) -> str:
        """Return a summary in one line."""
        count = self.words
        return (
            f"{count['reviewed']} reviewed, {count['admitted']} admitted "
            f"({count['patched']} patched, {count['warned']} warned), {count['denied']} denied"
        )


def cause(message: str) -> str:
    """Return the cause of a denial, without its amounts."""
    first = _ONE.sub("have", _SUBJECT.sub("", message.removeprefix(MESSAGE_PREFIX)))
    return _AMOUNT.sub("N", _END.sub("", first))
