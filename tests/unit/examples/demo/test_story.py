"""The temporary files are removed, and the printed commands work."""

import asyncio
import io
import re
import shlex

import pytest

from examples.demo import story
from kubectl_numa.lines import TextWriter
from tests.worlds.programs import needs


def test_temporary_folder_is_removed() -> None:
    with story.stage() as files:
        assert files.cluster.read_text().startswith("# A cluster small enough")
        assert files.pair.key.stat().st_mode & 0o777 == 0o600
    assert not files.folder.exists()


@needs("curl")
async def test_printed_commands_work(output: TextWriter) -> None:
    serving = asyncio.create_task(story.serve(output, port=0))
    text = ""
    while "curl" not in text:
        await asyncio.sleep(0.05)
        assert not serving.done()
        assert isinstance(output.console.file, io.StringIO)
        text = output.console.file.getvalue()
    outputs = []
    for line in re.findall(r"^curl .*$", text, re.MULTILINE):
        process = await asyncio.create_subprocess_exec(
            *shlex.split(line), "--silent", "--show-error", stdout=asyncio.subprocess.PIPE
        )
        outputs.append((await process.communicate())[0].decode())
    assert '"patchType":"JSONPatch"' in outputs[0]
    assert '"allowed":false' in outputs[1]
    assert "no node can align" in outputs[1]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
