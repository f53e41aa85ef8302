"""A place for the programs of each attack: all goes to addresses of this machine, and stops with the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.system.attack import objects
from tests.system.attack.arena import Arena, bound
from tools.clusters import programs


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    async with programs.site(tmp_path) as here:
        yield Arena(here, bound(), objects.nodes())
