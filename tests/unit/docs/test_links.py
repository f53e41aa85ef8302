"""Links lead to files and headings that are there, and commands that readers type do what pages say."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.unit.docs.blocks import ROOT, Block, Needs, name, pages, read
from tests.unit.docs.shell import follow, shell

# Templates of benchmarks become pages elsewhere, which are looked at there.
FOLDERS = [folder for folder in ROOT.glob("[a-z]*/") if folder.name not in {"build", "dist"}]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in FOLDERS for page in folder.rglob("*.md") if "bench" not in page.parts),
]

_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+?)\s*$", re.MULTILINE)


def links(page: str) -> list[str]:
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


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = {target for target in links((folder / "README.md").read_text()) if target[0].isdigit()}
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}


def here(page: Path) -> list[Block]:
    """The blocks of a page that need nothing but this machine."""
    return [block for block in read(page.read_text()) if not block.reason and block.needs is Needs.NOTHING]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in pages() if here(page)], ids=name)
async def test_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    async with shell(tmp_path) as reader:
        for block in here(page):
            await follow(reader, block, name(page))
