"""Leaves out what wants a clean Debian, unless it is asked for; skips it, loudly, where none can be made."""

import os
import shutil
from pathlib import Path

import pytest

from tests.worlds.opt_in import CLEAN_ROOT
from tools.clusters.gotools import UnavailableError


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    CLEAN_ROOT.claim(config, items, Path(__file__).parent, find)


async def find() -> None:
    if os.geteuid():
        raise UnavailableError("wants user 0, who can make a root file system and enter it")
    if not shutil.which("mmdebstrap"):
        raise UnavailableError("install mmdebstrap")
