"""A reader's shell keeps what one block leaves for the next, and says what a page is wrong about."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.unit.docs.blocks import Block
from tests.unit.docs.shell import Shell, follow, shell


@pytest_asyncio.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Shell]:
    async with shell(tmp_path) as running:
        yield running


async def test_variables_and_folders_last_from_block_to_block(reader: Shell) -> None:
    await reader.run(Block(1, "mkdir made && cd made\nPOD='two words'\n"))
    outcome = await reader.run(Block(2, 'basename "$PWD"; echo "$POD"\n'))
    assert (outcome.exit_code, outcome.printed) == (0, "made\ntwo words\n")


async def test_paths_are_those_of_the_repository(reader: Shell) -> None:
    await follow(
        reader, Block(1, "test -f examples/data/cluster.yaml\nkubectl numa version --help\n"), "page.md"
    )


async def test_a_block_ends_at_its_first_failure(reader: Shell) -> None:
    outcome = await reader.run(Block(1, "echo one\nfalse\necho two\n"))
    assert (outcome.exit_code, outcome.printed) == (1, "one\n")


async def test_what_goes_on_running_is_waited_for_and_ended(reader: Shell) -> None:
    outcome = await reader.run(Block(1, "echo ready; sleep 1000\n", until="ready"))
    assert outcome.exit_code == 0
    await reader.end()


async def test_what_goes_on_running_makes_room_for_the_next(reader: Shell) -> None:
    await reader.run(Block(1, "echo $$ > first; echo ready; sleep 1000\n", until="ready"))
    running = await reader.run(Block(2, 'kill -0 "$(cat first)"\n'))
    await reader.run(Block(3, "echo ready; sleep 1000\n", until="ready"))
    ended = await reader.run(Block(4, 'kill -0 "$(cat first)"\n'))
    assert (running.exit_code, ended.exit_code) == (0, 1)


async def test_what_ends_before_it_is_ready_has_failed(reader: Shell) -> None:
    outcome = await reader.run(Block(1, "exit 3\n", until="ready"))
    assert outcome.exit_code == 3


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (Block(7, "exit 2\n"), r"page.md:7:\nexit 2\nended with 2, not 0"),
        (Block(7, "true\n", exit_code=1), "ended with 0, not 1"),
        (Block(7, "echo one\n", shown=("two",)), "did not print:\ntwo\n\nbut:\none"),
    ],
)
async def test_a_page_that_is_wrong_fails(reader: Shell, block: Block, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        await follow(reader, block, "page.md")
