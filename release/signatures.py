"""Signatures with a GnuPG key, for `gpg --verify` and `helm verify`."""

from dataclasses import dataclass
from pathlib import Path

from release.commands import run


@dataclass(frozen=True, slots=True)
class Signer:
    """A key of the user's keyring; `key` is a name for `gpg --local-user`."""

    key: str

    def detached(self, file: Path) -> Path:
        """Write a detached signature next to a file, and return its path."""
        signature = file.with_name(f"{file.name}.asc")
        self._gpg("--armor", "--detach-sign", "--output", signature, file)
        return signature

    def wrapped(self, text: str, into: Path) -> Path:
        """Write a text with its signature around it, and return its path."""
        self._gpg("--clear-sign", "--output", into, stdin=text.encode())
        return into

    def public_key(self, into: Path) -> Path:
        """Export the public key to a file, and return its path."""
        self._gpg("--armor", "--output", into, "--export", self.key)
        return into

    def _gpg(self, *arguments: str | Path, stdin: bytes = b"") -> None:
        run("gpg", "--batch", "--yes", "--local-user", self.key, *arguments, stdin=stdin)
