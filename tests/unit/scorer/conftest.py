"""The scorer of these tests."""

import pytest

from tests.worlds.scorer import Scorer


@pytest.fixture
def scorer() -> Scorer:
    """A scorer that has no snapshot, and leads."""
    return Scorer()
