"""
Words that only the authors of this project would understand, and what to write in place of each.

Each row is a pattern for a word as it stands in a sentence, in small letters or capitals, and what to write
instead. A space in a pattern is any white space, a new line too. Where the same letters also have a plain
meaning, the pattern leaves that out. It lists no files: a sentence that is good on one page is good on all.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

PRIVATE: Mapping[str, str] = MappingProxyType(
    {
        r"boards?": "table, dashboard",
        r"standings?": "evaluations, results",
        # The old names of settings remain in code, in the errors that name the new ones.
        r"(?<![`.\-_])promis(?:e|es|ed|ing)(?![`\-])": "reserve, reservation",
        r"(?:the|its|their|out of|within|no) reach(?! (?:it|the|a|an|them)\b)": "access, what can access it",
        r"news": "events, changes",
        r"heard? of": "receive, be notified of",
        r"ill(?! defined)": "degraded, unhealthy",
        r"(?:which|that|not|cannot|to) bears? (?:a|an|the|its|every|each|all|this|that) taint": "tolerate",
        r"doors?": "port, endpoint, entry point",
        r"strangers?": "somebody without credentials, a new user",
        r"thie(?:f|ves)": "attacker",
        r"(?:the|a|no) ways? out": "fix, workaround",
        r"(?:owner|tenant|pod|user)s?\W{0,2}s? wish(?:es)?": "request",
        r"(?:a|its|their|further|unmet) wish(?:es)?": "request, preference",
        r"what (?:it|they) says? of (?:itself|themselves)": "what it reports",
        r"makes? no sense": "is invalid",
        r"what bec(?:omes|ame) of": "the result of, by outcome",
        r"(?:what|all that) (?:is|was) (?:said|told|found)": "report, message, result",
        r"the (?:said|told|found)": "report, message, result",
        r"riddles?": "a plain sentence",
        r"mend(?:s|ed|ing)?": "fix, correct",
        r"anew": "again",
        r"how (?:it|they|pods|a pod|the pod) sits?": "alignment, whether it is aligned",
        r"sits? (?:misaligned|aligned|as it|as they|no better)": "is aligned, is misaligned",
        r"whoever": "anyone who, the user who, the caller",
        r"nobody (?:knows|tells|says)": "is unknown, is not reported",
        r"(?:is|are|was|were) told(?! apart)": "gets, is notified, is configured",
        r"told (?:of|by)": "notified of, reported by",
        r"hears?": "receives, is notified",
        r"by and by": "gradually",
        r"asks? for nothing": "requests nothing",
        r"go(?:es)? on (?:to|with|once|\w+ing)": "continue, keep",
        r"stands? (?:in|under|above|below|beside|behind|here|there|twice)": "is, is listed",
        r"(?:gives?|given|giving) out": "allocate, allocatable",
        r"(?:fault|pod|rule|annotation|label|program)s? of ours": "of numalign, an internal error",
        r"in silence": "silently",
        r"comes? late": "is delayed",
        r"(?:stays?|remains?) as it was(?! written)": "is unchanged, is not updated",
        r"what (?:comes?|came) of": "the result, the outcome",
    }
)
"""What to write instead, by the pattern of a private word."""


class Finding(NamedTuple):
    """A private word, where it stands, and what to write instead."""

    where: str
    word: str
    instead: str

    def __str__(self) -> str:
        """One line for people."""
        return f'{self.where}: "{self.word}": write {self.instead}'


def findings(where: str, text: str, *, line: int = 1) -> Iterator[Finding]:
    """The private words in a text that begins on that line; their own lines are added to `where`."""
    for pattern, instead in _EACH.items():
        for found in pattern.finditer(text):
            at = line + text.count("\n", 0, found.start())
            yield Finding(f"{where}:{at}", " ".join(re.split(_SPACE, found[0])), instead)


# A line of a comment begins with `#`.
_SPACE = r"[\s#]+"
_EACH = MappingProxyType(
    {
        re.compile(rf"\b(?:{pattern.replace(' ', _SPACE)})\b", re.IGNORECASE): instead
        for pattern, instead in PRIVATE.items()
    }
)
