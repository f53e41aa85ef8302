"""The webhook runs as a process, and ends whatever happens."""

import asyncio
import dataclasses
import os
import signal
from pathlib import Path

import pytest

from examples.demo import webhook
from examples.demo.calls import admit, line_to
from examples.demo.story import DemoFiles
from examples.demo.webhook import WebhookDied
from tests.unit.kubectl_numa.objects import manifest


async def test_it_answers_over_https_and_a_death_is_told_with_its_last_words(stage: DemoFiles) -> None:
    pod = manifest("a", "1", namespace="default")
    async with webhook.running(stage.cluster, stage.pair) as running, line_to(running, connections=1) as post:
        assert (await admit(post, pod, uid="u")).outcome == {"admitted"}
        running.process.send_signal(signal.SIGKILL)
        await running.process.wait()
        with pytest.raises(
            WebhookDied, match=r"(?s)ended with exit code -9 while answering /mutate.*server.listening"
        ):
            await admit(post, pod, uid="u")


async def test_one_that_cannot_begin_says_why(stage: DemoFiles) -> None:
    pair = dataclasses.replace(stage.pair, key=stage.pair.cert)
    with pytest.raises(WebhookDied, match=r"(?s)ended with exit code 2 while starting; it logged:.*tls\.crt"):
        async with webhook.running(stage.cluster, pair):
            pass


def test_settings_of_the_caller_do_not_reach_it() -> None:
    ours = {"NUMALIGN_PORT": "1", "HOME": "/home/me", "PYTHONPATH": "/mine"}
    theirs = webhook.environment(ours)
    assert theirs.keys() == {"HOME", "PYTHONPATH"}
    assert theirs["PYTHONPATH"].endswith(f"{os.pathsep}/mine")


async def test_a_program_that_says_nothing_is_told_so() -> None:
    process = await asyncio.create_subprocess_exec("true")
    died = await webhook.RunningWebhook(process, Path("ca")).died("starting")
    assert died.message == "the webhook ended with exit code 0 while starting; it logged: nothing"
    assert died.exit_code == 2
