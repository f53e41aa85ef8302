"""The scorer of these tests."""

import pytest

from tests.worlds.scorer import Scorer


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()
