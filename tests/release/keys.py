"""Keys of GnuPG that last as long as a test."""

import subprocess
from pathlib import Path

import pytest

WHO = "release@example.com"


def new_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a key in a keyring of its own, which is that of the process from now on; how the key is named."""
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    subprocess.run(  # noqa: S603  the command is ours
        ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", WHO, "ed25519", "sign", "1d"],  # noqa: S607
        check=True,
        capture_output=True,
    )
    return WHO
