"""Links in every Markdown file lead to files and headings that are there."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.unit.docs.blocks import ROOT, name
from tests.unit.docs.tree import files

TEMPLATES = frozenset({"tools/bench/kep_6007_page.md", "tools/bench/replay_page.md"})
"""Become pages elsewhere, which are looked at there."""

PAGES = [page for page in files("*.md") if name(page) not in TEMPLATES]

_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+?)\s*$", re.MULTILINE)


def links(page: str) -> list[str]:
    """Where a page links to, outside code."""
    return _LINK.findall(_CODE.sub("", _FENCED.sub("", page)))


def anchor(heading: str) -> str:
    """The anchor that forges and the site give a heading."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those of all headings of a page; a heading that is there again gets a number."""
    counts: dict[str, int] = {}
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        slug = anchor(heading)
        number = counts.get(slug, 0)
        counts[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return frozenset(found)


def mistake(page: Path, target: str) -> str:
    """What is wrong with a link, or nothing."""
    address = urlsplit(target)
    if address.scheme:
        right = address.scheme == "mailto" or (address.scheme == "https" and "." in address.netloc)
        return "" if right else "want https:// and a host, or a path"
    to = (page.parent / address.path).resolve() if address.path else page
    if not to.is_relative_to(ROOT) or not to.exists():
        return "no such file"
    if address.fragment and (to.suffix != ".md" or address.fragment not in anchors(to)):
        return "no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = {target: mistake(page, target) for target in links(page.read_text())}
    assert {target: why for target, why in wrong.items() if why} == {}
