"""The webhook of these tests."""

from pathlib import Path

import pytest

from tests.worlds.webhook import Webhook


@pytest.fixture
def webhook(tmp_path: Path) -> Webhook:
    return Webhook(tmp_path / "cluster.json")
