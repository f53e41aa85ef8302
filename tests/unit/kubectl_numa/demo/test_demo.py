"""The demo: bundled pods with the real webhook over HTTPS, many pods, commands that work, and no remains."""

import asyncio
import dataclasses
import io
import os
import re
import shlex
import signal
from collections.abc import Iterator
from itertools import count

import pytest
from rich.console import Console

from kubectl_numa.demo import large, small, story, webhook
from kubectl_numa.demo.reviews import OutcomeCounts, PodOutcome, admit, line_to
from kubectl_numa.demo.small import BadStory, Story
from kubectl_numa.demo.story import DemoFiles
from kubectl_numa.demo.webhook import Stopped, WebhookDied, stoppable
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from numalign.model.node import node_class
from numalign.scheduling.scheduler_state import SchedulerState
from tests.unit.kubectl_numa.demo.test_demo_reviews import fake
from tests.unit.kubectl_numa.objects import manifest, state
from tests.worlds.programs import needs

STORIES = {story.manifest["metadata"]["name"]: story for story in small.stories(small.read(small.PODS))}


@pytest.fixture
def file() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def output(file: io.StringIO) -> TextWriter:
    return TextWriter(Console(file=file, width=80))


@pytest.fixture
def files() -> Iterator[DemoFiles]:
    """A folder with the bundled cluster and a certificate."""
    with story.stage() as made:
        assert made.pair.key.stat().st_mode & 0o777 == 0o600
        yield made
    assert not made.folder.exists()


@pytest.fixture
def nodes(files: DemoFiles) -> ClusterView:
    """The bundled cluster."""
    return ClusterView(snapshot.load(files.cluster))


@pytest.fixture
def pods(nodes: ClusterView) -> SchedulerState:
    """The same cluster without pods."""
    return state(nodes)


# Few pods.


async def test_every_bundled_pod_has_its_expected_outcome(
    files: DemoFiles, nodes: ClusterView, pods: SchedulerState, output: TextWriter, file: io.StringIO
) -> None:
    stories = list(STORIES.values())
    async with webhook.running(files.cluster, files.pair) as running, line_to(running, connections=1) as post:
        tally, differing = await small.review(stories, nodes, pods, post, output)
    assert running.process.returncode == 0
    shown = file.getvalue()
    assert differing == 0, shown
    assert str(tally) == "22 reviewed, 17 admitted (12 patched, 7 warned), 5 denied"
    assert shown.startswith(
        "1/22  default/inference-7b\n"
        "  shows     the simple case, one GPU with its CPUs and memory in one zone.\n"
        "  pod       requests single-numa-node alignment. Guaranteed: container server 8\n"
        "            cpu, 48Gi memory, 1 nvidia.com/gpu\n"
        "  verdict   admitted, patched\n"
        "  affinity  nodeAffinity:\n"
        "              requiredDuringSchedulingIgnoredDuringExecution:\n"
        "                nodeSelectorTerms:\n"
    )
    assert "                         ^\n" in shown
    assert max(map(len, shown.splitlines())) <= 110


async def test_different_outcome_is_shown(
    nodes: ClusterView, pods: SchedulerState, output: TextWriter, file: io.StringIO
) -> None:
    _, differing = await small.review([STORIES["inference-7b"]], nodes, pods, fake(), output)
    assert differing == 1
    shown = " ".join(file.getvalue().split())
    assert "But the outcome is admitted, not admitted, patched, and it keeps away from no node" in shown


def test_excluded_nodes_are_those_of_the_classes(nodes: ClusterView, pods: SchedulerState) -> None:
    dgx = next(node for node in nodes.cluster.nodes if node.name == "dgx-1")
    values = [node_class(dgx), "no-such-class"]
    excluding = {"key": "numalign.io/class", "operator": "NotIn", "values": values}
    terms = [{}, {"matchExpressions": [excluding, {"key": "x", "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = {"spec": {"affinity": {"nodeAffinity": required}}}
    answer = PodOutcome(pod, pod, operations=({"op": "add"},))
    assert small.excluded(answer, nodes) == {"dgx-1", "dgx-2"}
    unexpected = Story(STORIES["metrics-cache"].manifest, "", "admitted, patched; nothing to keep away from.")
    found = small.compare(unexpected, answer, nodes, pods).differences
    assert found == ("it keeps away from dgx-1, dgx-2, not none",)


PLACED = {"inference-7b": None, "pinned-benchmark": "legacy-1", "gpu-exporter-x7k2p": "dgx-1"}


def test_pod_may_be_placed_by_its_author_or_its_daemonset() -> None:
    assert {name: small.placed_on(STORIES[name].manifest) for name in PLACED} == PLACED


EXPECTED: list[tuple[str, str, set[str]]] = [
    ("denied; no node could.", "denied", set()),
    ("admitted; nothing to keep away from.", "admitted", set()),
    (
        "admitted, patched; keeps away from cpu-1 (no GPU, not dgx-1) and l-1.",
        "admitted patched",
        {"cpu-1", "l-1"},
    ),
    ("admitted, warned; keeps away from all known nodes except dgx-1.", "admitted warned", {"cpu-1", "l-1"}),
]


@pytest.mark.parametrize(("expected", "outcome", "away"), EXPECTED)
def test_comment_above_a_pod_is_its_expected_outcome(expected: str, outcome: str, away: set[str]) -> None:
    parsed = Story({}, "", expected)
    assert parsed.outcome == {*outcome.split()}
    assert parsed.keeps_away_from({"cpu-1", "dgx-1", "l-1"}) == away


def test_pod_without_a_comment_is_a_mistake() -> None:
    with pytest.raises(BadStory, match=r"pods.yaml, document 2: needs a comment"):
        list(small.stories("# Shows: a.\n# Expected: denied.\nkind: Pod\n---\nkind: Pod\n"))


# Many pods.


async def test_pipe_gets_a_line_for_every_tenth(output: TextWriter, file: io.StringIO) -> None:
    pods = [manifest(f"a-{number}", "1", namespace="default") for number in range(40)]
    seconds = count()
    counts, took = await large.review(pods, fake(), output, clock=lambda: float(next(seconds)))
    lines = file.getvalue().splitlines()
    assert lines[0] == "   10%       4 of 40 pods    1.0 s"
    assert lines[-1] == "  100%      40 of 40 pods   10.0 s"
    assert len(lines) == 10
    assert str(counts) == "40 reviewed, 40 admitted (0 patched, 0 warned), 0 denied"
    assert took == 12


async def test_terminal_gets_a_bar(file: io.StringIO) -> None:
    terminal = TextWriter(Console(file=file, width=80, force_terminal=True, color_system=None))
    await large.review([manifest("a", "1", namespace="default")] * 3, fake(), terminal)
    assert "3/3" in file.getvalue()
    assert "%" not in file.getvalue()


def test_summary_lists_outcomes_warnings_and_causes(output: TextWriter, file: io.StringIO) -> None:
    tally = OutcomeCounts()
    tally.words.update(reviewed=1000, admitted=990, untouched=10, patched=980, warned=5, denied=10)
    tally.causes.update({f"cause {number}": 100 - number for number in range(large.CAUSES_SHOWN + 2)})
    tally.warnings.update({"later": 5})
    large.show(tally, 4.0, output)
    shown = file.getvalue()
    assert shown.startswith(
        "\n"
        "  admitted        990\n"
        "    untouched      10\n"
        "    patched       980\n"
        "    warned          5\n"
        "  denied           10\n"
        "\n"
        "  warned, by message (a pod may have several warnings)\n"
        "        5  later\n"
        "\n"
        "  denied, by cause\n"
        "      100  cause 0\n"
        "       99  cause 1\n"
    )
    others = 100 - large.CAUSES_SHOWN + 99 - large.CAUSES_SHOWN
    assert shown.endswith(
        f"{others:>9,}  2 other causes\n\n  2,000 reviews (mutate, then validate) in 4.0 s: 500 per second\n"
    )


# Processes.


@pytest.mark.full
async def test_death_of_the_webhook_is_reported_with_its_log(files: DemoFiles) -> None:
    pod = manifest("a", "1", namespace="default")
    async with webhook.running(files.cluster, files.pair) as running, line_to(running, connections=1) as post:
        assert (await admit(post, pod, uid="u")).outcome == {"admitted"}
        running.process.send_signal(signal.SIGKILL)
        await running.process.wait()
        died = r"(?s)ended with exit code -9 while answering /mutate.*server.listening"
        with pytest.raises(WebhookDied, match=died):
            await admit(post, pod, uid="u")

    pair = dataclasses.replace(files.pair, key=files.pair.cert)
    with pytest.raises(WebhookDied, match=r"(?s)ended with exit code 2 while starting; it logged:.*tls\.crt"):
        async with webhook.running(files.cluster, pair):
            pass


def test_settings_of_the_caller_are_not_inherited() -> None:
    passed = webhook.environment({"NUMALIGN_PORT": "1", "HOME": "/home/me", "PYTHONPATH": "/mine"})
    assert passed.keys() == {"HOME", "PYTHONPATH"}
    assert passed["PYTHONPATH"].endswith(f"{os.pathsep}/mine")


@pytest.mark.full
@needs("curl")
async def test_printed_commands_work(output: TextWriter, file: io.StringIO) -> None:
    serving = asyncio.create_task(story.serve(output, port=0))
    while "curl" not in file.getvalue():
        await asyncio.sleep(0.05)
        assert not serving.done()
    outputs = []
    for line in re.findall(r"^curl .*$", file.getvalue(), re.MULTILINE):
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


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
async def test_second_signal_does_not_interrupt_clean_up(number: signal.Signals, code: int) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(10)
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            cleaned.append(True)

    with pytest.raises(Stopped) as stopped:
        await stoppable(work())
    assert (stopped.value.exit_code, cleaned) == (code, [True])


async def test_error_and_cancellation_are_no_signal() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError

    with pytest.raises(KeyError):
        await stoppable(work())
    task = asyncio.create_task(stoppable(asyncio.sleep(10)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
