"""
Read a kubelet's configuration from its file, in a process that ends.

A YAML reader takes more memory than the rest of the agent, and is needed once in the life of a kubelet. So
`read` starts `python -m agent.config_file PATH`, which prints the needed part of the configuration as JSON.
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
"""Bytes of a file; a configuration has about 5 KiB."""

DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
    }
)
"""Defaults of a configuration file (SetDefaults_KubeletConfiguration in the kubelet's
apis/config/v1beta1)."""


class BadConfigFile(BadInput):
    """Raised when a file does not contain a kubelet's configuration."""


async def read(path: Path, *, within: float = READ_SECONDS) -> Mapping[str, object]:
    """Return the fields of `kubelet_config.FIELDS` in a file, with `DEFAULTS`; raise `Unconfigured`."""
    command = (sys.executable, "-m", __name__, str(path))
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(within):
            printed, errors = await process.communicate()
    except TimeoutError as error:
        raise Unconfigured(f"{path} could not be read within {within:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Unconfigured(f"{path}: {cut(errors.decode(errors='replace').strip(), 2000)}")
    fields: Mapping[str, object] = orjson.loads(printed)
    return fields


def kept(content: bytes) -> Mapping[str, object]:
    """Do the same as `read`, from content and in this process; raise `BadInput`."""
    # The waiting process imports this module too, and does not need a YAML reader.
    from numalign.kube.files import documents  # noqa: PLC0415  imported only if needed

    parts = [part for part in map(Part, documents.read(content, most=LONGEST)) if part["kind"].text() == KIND]
    if len(parts) != 1:
        raise BadConfigFile([Mistake("", f"contains {len(parts)} objects of kind {KIND}: expected one")])
    fields = {name: part.value for name, part in parts[0].members() if name in FIELDS}
    return {**DEFAULTS, **fields}


def main(path: str) -> int:
    """Print the needed part of a file; return the exit code."""
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
