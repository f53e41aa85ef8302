"""Keyrings of tests leave no program behind."""

from pathlib import Path
from time import monotonic, sleep

from tests.unit.tools.release.keys import keyring, new_key
from tests.worlds.programs import needs, running

pytestmark = needs("gpg")

PATIENCE = 20
"""Seconds for an agent that was told to end."""


def test_the_agent_ends_with_its_keyring(tmp_path: Path) -> None:
    with keyring(tmp_path / "keys") as home:
        new_key(home)
        assert any("gpg-agent" in command for command in running(str(home)))

    deadline = monotonic() + PATIENCE
    while running(str(home)) and monotonic() < deadline:
        sleep(0.05)
    assert running(str(home)) == []
