"""Keyrings of tests leave no program behind."""

from pathlib import Path
from time import monotonic, sleep

from tests.programs import needs
from tests.release.keys import keyring, new_key

pytestmark = needs("gpg")

PATIENCE = 20
"""Seconds for an agent that was told to end."""


def programs(home: Path) -> list[str]:
    """The commands of all processes that work for a keyring."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            # The process has ended.
            continue
    return [command for command in commands if str(home) in command]


def test_the_agent_ends_with_its_keyring(tmp_path: Path) -> None:
    with keyring(tmp_path / "keys") as home:
        new_key(home)
        assert any("gpg-agent" in command for command in programs(home))

    deadline = monotonic() + PATIENCE
    while programs(home) and monotonic() < deadline:
        sleep(0.05)
    assert programs(home) == []
