"""Signatures by a key of GnuPG, which common tools verify: `gpg --verify` and `helm verify`."""

from dataclasses import dataclass
from pathlib import Path

from release.commands import run


@dataclass(frozen=True, slots=True)
class Signer:
    """A key of the caller's keyring, named as `gpg --local-user` takes it."""

    key: str

    def detached(self, file: Path) -> Path:
        """Sign a file; the signature is written next to it."""
        signature = file.with_name(f"{file.name}.asc")
        self._gpg("--armor", "--detach-sign", "--output", signature, file)
        return signature

    def wrapped(self, text: str, into: Path) -> Path:
        """Write a text with its signature around it."""
        self._gpg("--clear-sign", "--output", into, stdin=text.encode())
        return into

    def public_key(self, into: Path) -> Path:
        """Export the public key."""
        self._gpg("--armor", "--output", into, "--export", self.key)
        return into

    def _gpg(self, *arguments: str | Path, stdin: bytes = b"") -> None:
        run("gpg", "--batch", "--yes", "--local-user", self.key, *arguments, stdin=stdin)
