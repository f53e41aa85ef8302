"""Placing pods is tested with the program that does it for schedulers."""

import pytest

from tests.unit.scorer.conftest import Scorer


@pytest.fixture
def scorer() -> Scorer:
    """A scorer that knows nothing yet, and leads."""
    return Scorer()
