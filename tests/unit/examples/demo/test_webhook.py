"""The webhook runs as a process, and its failures are reported with its log."""

import dataclasses
import os
import signal

import pytest

from examples.demo import webhook
from examples.demo.calls import admit, line_to
from examples.demo.story import DemoFiles
from examples.demo.webhook import WebhookDied
from tests.unit.kubectl_numa.objects import manifest


async def test_death_of_the_webhook_is_reported_with_its_log(files: DemoFiles) -> None:
    pod = manifest("a", "1", namespace="default")
    async with webhook.running(files.cluster, files.pair) as running, line_to(running, connections=1) as post:
        assert (await admit(post, pod, uid="u")).outcome == {"admitted"}
        running.process.send_signal(signal.SIGKILL)
        await running.process.wait()
        with pytest.raises(
            WebhookDied, match=r"(?s)ended with exit code -9 while answering /mutate.*server.listening"
        ):
            await admit(post, pod, uid="u")


async def test_failed_start_is_reported_with_its_log(files: DemoFiles) -> None:
    pair = dataclasses.replace(files.pair, key=files.pair.cert)
    with pytest.raises(WebhookDied, match=r"(?s)ended with exit code 2 while starting; it logged:.*tls\.crt"):
        async with webhook.running(files.cluster, pair):
            pass


def test_settings_of_the_caller_are_not_inherited() -> None:
    own = {"NUMALIGN_PORT": "1", "HOME": "/home/me", "PYTHONPATH": "/mine"}
    passed = webhook.environment(own)
    assert passed.keys() == {"HOME", "PYTHONPATH"}
    assert passed["PYTHONPATH"].endswith(f"{os.pathsep}/mine")
