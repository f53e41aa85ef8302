"""What the README, the tutorial and the how-tos tell readers to type does what they say."""

from pathlib import Path

import pytest

from tests.unit.docs.blocks import Block, Needs, name, pages, read
from tests.unit.docs.shell import follow, shell


def here(page: Path) -> list[Block]:
    """The blocks of a page that need nothing but this machine."""
    return [block for block in read(page.read_text()) if not block.reason and block.needs is Needs.NOTHING]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in pages() if here(page)], ids=name)
async def test_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    async with shell(tmp_path) as reader:
        for block in here(page):
            await follow(reader, block, name(page))
