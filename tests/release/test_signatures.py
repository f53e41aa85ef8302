"""What is signed is verified by the tools that a stranger has, and nothing else is."""

import subprocess
from pathlib import Path

import pytest

from release.commands import FailedError
from release.signatures import Signer
from tests.programs import needs
from tests.release.keys import new_key

pytestmark = needs("gpg")


def verified(*arguments: str | Path, home: Path) -> bool:
    command = ["gpg", "--homedir", str(home), "--batch", "--verify", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603  ours


@pytest.fixture
def signer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Signer:
    return Signer(new_key(tmp_path / "keys", monkeypatch))


@pytest.fixture
def stranger(signer: Signer, tmp_path: Path) -> Path:
    """A keyring in which there is nothing but the public key."""
    home = tmp_path / "stranger"
    home.mkdir(mode=0o700)
    key = signer.public_key(tmp_path / "key.asc")
    subprocess.run(["gpg", "--homedir", home, "--batch", "--import", key], check=True, capture_output=True)  # noqa: S603, S607
    return home


def test_a_detached_signature_is_of_these_bytes(signer: Signer, stranger: Path, tmp_path: Path) -> None:
    file = tmp_path / "SHA256SUMS"
    file.write_text("a")
    signature = signer.detached(file)

    assert signature.name == "SHA256SUMS.asc"
    assert verified(signature, file, home=stranger)
    file.write_text("b")
    assert not verified(signature, file, home=stranger)


def test_a_text_is_signed_where_it_stands(signer: Signer, stranger: Path, tmp_path: Path) -> None:
    signed = signer.wrapped("name: numalign\n", tmp_path / "some.prov")
    assert verified(signed, home=stranger)
    signed.write_text(signed.read_text().replace("numalign", "another"))
    assert not verified(signed, home=stranger)


@pytest.mark.usefixtures("signer")
def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FailedError, match=r"nobody@example\.com"):
        Signer("nobody@example.com").detached(tmp_path / "file")
