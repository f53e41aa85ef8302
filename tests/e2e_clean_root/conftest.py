"""Leaves out what wants a clean Debian, unless it is asked for; skips it, loudly, where none can be made."""

import os
import shutil
from pathlib import Path

import pytest

from harness.gotools import UnavailableError
from tests.asked_for import CLEAN_ROOT


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    CLEAN_ROOT.claim(config, items, Path(__file__).parent, find)


async def find() -> None:
    """Raises `UnavailableError` where no root can be made."""
    if os.geteuid():
        raise UnavailableError("wants user 0, who can make a root file system and enter it")
    if not shutil.which("mmdebstrap"):
        raise UnavailableError("install mmdebstrap")
