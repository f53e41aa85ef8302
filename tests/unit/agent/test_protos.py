"""Stubs are what `python -m grpc_tools.protoc` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[3] / "agent"


@pytest.mark.parametrize("name", ["podresources_pb2.py", "podresources_pb2.pyi"])
def test_the_stubs_are_those_of_the_messages(tmp_path: Path, name: str) -> None:
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path", str(AGENT)]
    outputs = ["--python_out", str(tmp_path), "--pyi_out", str(tmp_path), str(AGENT / "podresources.proto")]
    subprocess.run([*protoc, *outputs], check=True)  # noqa: S603  what `python -m grpc_tools.protoc` runs
    assert (tmp_path / name).read_bytes() == (AGENT / name).read_bytes()
