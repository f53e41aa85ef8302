"""Keyrings of GnuPG that last as long as a test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHO = "release@example.com"


@contextmanager
def keyring(home: Path) -> Iterator[Path]:
    """An empty keyring during the block; its agent, which would stay as long as the folder, ends with it."""
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        _gnupg("gpgconf", home, "--kill", "all")


def new_key(home: Path) -> str:
    """Make a key in a keyring; how the key is named."""
    _gnupg("gpg", home, "--batch", "--passphrase", "", "--quick-generate-key", WHO, "ed25519", "sign", "1d")
    return WHO


def imported(home: Path, key: Path) -> None:
    """Take a public key into a keyring."""
    _gnupg("gpg", home, "--batch", "--import", str(key))


def _gnupg(tool: str, home: Path, *arguments: str) -> None:
    subprocess.run([tool, "--homedir", home, *arguments], check=True, capture_output=True)  # noqa: S603  ours
