"""The stage is thrown away, and what is offered to try works."""

import asyncio
import io
import re
import shlex

import pytest

from examples.demo import story
from kubectl_numa.lines import TextWriter
from tests.worlds.programs import needs


def test_the_stage_is_thrown_away() -> None:
    with story.stage() as here:
        assert here.cluster.read_text().startswith("# A cluster small enough")
        assert here.pair.key.stat().st_mode & 0o777 == 0o600
    assert not here.folder.exists()


@needs("curl")
async def test_the_lines_to_try_work_as_they_stand(sheet: TextWriter) -> None:
    serving = asyncio.create_task(story.serve(sheet, port=0))
    text = ""
    while "curl" not in text:
        await asyncio.sleep(0.05)
        assert not serving.done()
        assert isinstance(sheet.console.file, io.StringIO)
        text = sheet.console.file.getvalue()
    said = []
    for line in re.findall(r"^curl .*$", text, re.MULTILINE):
        process = await asyncio.create_subprocess_exec(
            *shlex.split(line), "--silent", "--show-error", stdout=asyncio.subprocess.PIPE
        )
        said.append((await process.communicate())[0].decode())
    assert '"patchType":"JSONPatch"' in said[0]
    assert '"allowed":false' in said[1]
    assert "no node can align" in said[1]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
