"""A kubelet's configuration from its file."""

import asyncio
import re
from errno import ENOENT
from os import strerror
from pathlib import Path

import pytest

from agent import config_file
from agent.config_file import DEFAULTS
from numalign.kube.errors import Unconfigured
from tests.worlds.notation import table

FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
cpuManagerPolicy: static
reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    return file


async def test_config_file_gets_the_kubelet_defaults(file: Path) -> None:
    reserved = [{"numaNode": 0, "limits": {"memory": "512Mi"}}]
    assert await config_file.read(file) == {
        **DEFAULTS, "cpuManagerPolicy": "static", "reservedMemory": reserved
    }  # fmt: skip
    kept = config_file.kept(b'{"kind": "KubeletConfiguration", "topologyManagerScope": "pod"}')
    assert kept == {**DEFAULTS, "topologyManagerScope": "pod"}


@pytest.mark.parametrize(("content", "said"), table([
    # what it is           its content                                        what is said of it
    ("empty",              "",                                                "is empty"),
    ("another kind",       "kind: Pod",        "contains 0 objects of kind KubeletConfiguration"),
    ("two of them", "kind: KubeletConfiguration\n---\nkind: KubeletConfiguration", "contains 2 objects"),
    ("no YAML",            "kind: [",                                         "is no YAML|expected"),
    ("too long",           "x" * (2**20 + 1),                                 "has more than 1048576 bytes"),
    ("a program",          "kind: KubeletConfiguration\nx: !!python/object:os.system {}", "python/object"),
]))  # fmt: skip
def test_invalid_file_raises(file: Path, capsys: pytest.CaptureFixture[str], content: str, said: str) -> None:
    file.write_text(content)
    assert config_file.main(str(file)) == 1
    printed, complaint = capsys.readouterr()
    assert not printed
    assert re.search(said, complaint)


async def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match=f"{tmp_path}/no.yaml: .*{strerror(ENOENT)}"):
        await config_file.read(tmp_path / "no.yaml")
    with pytest.raises(Unconfigured, match="could not be read within 0 s"):
        await config_file.read(tmp_path, within=0)


async def test_cancelled_read_leaves_no_process(file: Path) -> None:
    reading = asyncio.create_task(config_file.read(file))
    await asyncio.sleep(0.05)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
