"""
A kubelet's configuration from its file, read in a process that ends.

What reads YAML takes more memory than the rest of the agent, and is needed once in the life of a kubelet.
So `read` starts `python -m agent.config_file PATH`, which prints as JSON what is kept of the configuration.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import orjson

from numalign.kube.decode.kubelet_config import FIELDS, KIND
from numalign.kube.decode.parts import Part
from numalign.kube.errors import Unconfigured
from numalign.model.errors import BadInput, Mistake, cut

READ_SECONDS = 30.0

LONGEST = 2**20
"""Bytes of a file; a configuration has some 5 KiB."""

DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
    }
)
"""What a file need not say (SetDefaults_KubeletConfiguration in the kubelet's apis/config/v1beta1)."""

_REASON = 2000


class BadConfigFile(BadInput):
    """Raised when a file holds no configuration of a kubelet."""


async def read(path: Path, *, within: float = READ_SECONDS) -> Mapping[str, object]:
    """The fields of `kubelet_config.FIELDS` in a file, and those of `DEFAULTS`; raises `Unconfigured`."""
    command = (sys.executable, "-m", __name__, str(path))
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(within):
            printed, said = await process.communicate()
    except TimeoutError as error:
        raise Unconfigured(f"{path} could not be read within {within:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Unconfigured(f"{path}: {cut(said.decode(errors='replace').strip(), _REASON)}")
    fields: Mapping[str, object] = orjson.loads(printed)
    return fields


def kept(content: bytes) -> Mapping[str, object]:
    """As `read`, of what a file holds and in this process; raises `BadInput`."""
    # The process that waits for this one imports this module too, and has no use for a reader of YAML.
    from numalign.kube.files import documents  # noqa: PLC0415  as said above

    found = [part for part in map(Part, documents.read(content, most=LONGEST)) if part["kind"].text() == KIND]
    if len(found) != 1:
        raise BadConfigFile([Mistake("", f"contains {len(found)} objects of kind {KIND}: expected one")])
    told = {name: part.value for name, part in found[0].members() if name in FIELDS}
    return {**DEFAULTS, **told}


def main(path: str) -> int:
    """Print what is kept of a file; the exit code."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LONGEST + 1)
        fields = orjson.dumps(kept(content))
    except (OSError, BadInput, orjson.JSONEncodeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(fields)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
