"""Whatever speaks of a version of Kubernetes that is not released says so."""

import re
from collections.abc import Iterator
from pathlib import Path

from numalign.model.options import PRE_RELEASE
from tests.unit.docs import texts

ROOT = Path(__file__).parents[3]

VERSION = re.compile(rf"\b1\.{PRE_RELEASE}\b")
SAID = re.compile(r"pre-release|\bbeta\b|once it is released")


def paragraphs() -> Iterator[tuple[str, str]]:
    """Every paragraph, row of a table and message that people read, and the file that has it."""
    for text in (*texts.pages(ROOT), *texts.chart(ROOT), *texts.messages(ROOT)):
        for paragraph in re.split(r"\n\s*\n|\n(?=\||\* |- )", text.words):
            yield text.where, paragraph


def test_unreleased_version_is_called_pre_release() -> None:
    found = [(where, paragraph) for where, paragraph in paragraphs() if VERSION.search(paragraph)]

    assert found
    assert [each for each in found if not SAID.search(each[1])] == []
