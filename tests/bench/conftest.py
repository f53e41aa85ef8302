"""Leaves the tests of benchmarks out of a run with a sample: no program that users run depends on them."""

from pathlib import Path

import pytest

from tests.asked_for import FULL


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(FULL.mark)
