"""What is signed is verified by the tools that a stranger has, and nothing else is."""

import subprocess
from pathlib import Path

import pytest

from release.commands import FailedError
from release.signatures import Signer
from tests.programs import needs
from tests.release.keys import imported

pytestmark = needs("gpg")


def verified(*arguments: str | Path, home: Path) -> bool:
    command = ["gpg", "--homedir", str(home), "--batch", "--verify", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603  ours


@pytest.fixture
def signer(key: str) -> Signer:
    return Signer(key)


@pytest.fixture
def reader(signer: Signer, stranger: Path, tmp_path: Path) -> Path:
    """A keyring in which there is nothing but the public key."""
    imported(stranger, signer.public_key(tmp_path / "key.asc"))
    return stranger


def test_a_detached_signature_is_of_these_bytes(signer: Signer, reader: Path, tmp_path: Path) -> None:
    file = tmp_path / "SHA256SUMS"
    file.write_text("a")
    signature = signer.detached(file)

    assert signature.name == "SHA256SUMS.asc"
    assert verified(signature, file, home=reader)
    file.write_text("b")
    assert not verified(signature, file, home=reader)


def test_a_text_is_signed_where_it_stands(signer: Signer, reader: Path, tmp_path: Path) -> None:
    signed = signer.wrapped("name: numalign\n", tmp_path / "some.prov")
    assert verified(signed, home=reader)
    signed.write_text(signed.read_text().replace("numalign", "another"))
    assert not verified(signed, home=reader)


@pytest.mark.usefixtures("signer")
def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FailedError, match=r"nobody@example\.com"):
        Signer("nobody@example.com").detached(tmp_path / "file")
