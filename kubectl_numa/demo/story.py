"""
The demo from beginning to end: a temporary folder, a certificate of its own, and the two parts.

The output shows the webhook's responses. The last line sums up both parts, for use in a pipeline.
"""

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.rule import Rule

from certs import authority
from certs.authority import Files
from kubectl_numa import moving
from kubectl_numa.demo import large, openb, reviews, small, webhook
from kubectl_numa.demo.reviews import OutcomeCounts, line_to
from kubectl_numa.demo.small import Story
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from numalign.model.intent import Match

REFUSED = "train-llm-8gpu-one-zone"
"""The bundled pod that is suggested to try: it is denied for a reason that fits in a sentence."""


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """The temporary folder of the demo, with the bundled cluster and a certificate in it."""

    folder: Path
    cluster: Path
    pair: Files


@contextmanager
def stage() -> Iterator[DemoFiles]:
    """Write everything that the webhook needs into a folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="numalign-demo-") as name:
        folder = Path(name)
        pair = authority.issue(names=[webhook.HOST, "localhost"], days=1, now=datetime.now(UTC))
        cluster = folder / small.CLUSTER
        cluster.write_text(small.read(small.CLUSTER), encoding="utf-8")
        yield DemoFiles(folder, cluster, authority.write(pair, folder))


async def play(writer: TextWriter) -> int:
    """Play both parts; return the number of bundled pods without the expected outcome."""
    with stage() as files:
        first, differing = await _part_one(files, writer)
        second = await _part_two(files, writer)
    writer.write("", "Both parts together:")
    if differing:
        writer.write(f"{differing} bundled pods did not have the expected outcome: see EXPECTED above.")
    writer.write(str(first.plus(second)))
    return differing


async def serve(writer: TextWriter, *, port: int) -> None:
    """Keep the webhook running on the bundled cluster until cancelled; raises `WebhookDied`."""
    with stage() as files:
        async with webhook.running(files.cluster, files.pair, port=port) as running:
            stories = _stories()
            refused = next(story for story in stories if story.manifest["metadata"]["name"] == REFUSED)
            writer.write(
                f"The webhook serves the bundled cluster at {running.url} until Ctrl-C. In another terminal:",
                "",
                f"# the patch for {stories[0].manifest['metadata']['name']}, in base64",
                _curl(files, stories[0], f"{running.url}/mutate"),
                "",
                f"# why {REFUSED} is denied",
                _curl(files, refused, f"{running.url}/validate"),
                "",
            )
            await running.process.wait()
            raise await running.died("serving")


async def _part_one(files: DemoFiles, writer: TextWriter) -> tuple[OutcomeCounts, int]:
    stories, cluster = _stories(), ClusterView(snapshot.load(files.cluster))
    placed = await moving.placing(cluster, [], match=Match.SATISFIES, complete=False)
    async with webhook.running(files.cluster, files.pair) as running, line_to(running, connections=1) as post:
        _title("1", "a cluster small enough to check by hand", writer)
        published, hidden = len(cluster.cluster.nodes), len(cluster.cluster.unknown)
        writer.write(
            f"{published + hidden} nodes ({hidden} without topology), {len(stories)} pods:"
            f" examples/data/{small.CLUSTER} and {small.PODS}",
            f"webhook at {running.url}; each pod is sent to /mutate, and the patched pod to /validate",
            "",
        )
        counts, differing = await small.review(stories, cluster, placed.state, post, writer)
    writer.write(str(counts), "")
    return counts, differing


async def _part_two(files: DemoFiles, writer: TextWriter) -> OutcomeCounts:
    items, pods = openb.cluster(), list(openb.pods())
    path = files.folder / "openb.json"
    path.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    nodes = sum(item["kind"] == "Node" for item in items)
    _title("2", "the nodes and pods of a real GPU cluster", writer)
    writer.write(
        f"{nodes:,} nodes, {len(pods):,} pods: Alibaba cluster-trace-gpu-v2023 (openb), USENIX ATC 2023",
        "zones, kubelet policies and intents are assumed as described in examples/data/README.md",
        "",
    )
    async with (
        webhook.running(path, files.pair, "--max-in-flight", "0") as running,
        line_to(running, connections=large.AT_ONCE) as post,
    ):
        counts, seconds = await large.review(pods, post, writer)
    large.show(counts, seconds, writer)
    writer.write("", str(counts))
    return counts


def _stories() -> list[Story]:
    return list(small.stories(small.read(small.PODS)))


def _title(number: str, words: str, writer: TextWriter) -> None:
    writer.console.print(Rule(f"Part {number}: {words}", align="left", style="dim", characters="-"))


def _curl(files: DemoFiles, story: Story, url: str) -> str:
    """Return a complete command; the review is written into the folder."""
    name = story.manifest["metadata"]["name"]
    path = files.folder / f"{name}.json"
    path.write_bytes(orjson.dumps(reviews.review(reviews.defaulted(story.manifest), uid=f"try-{name}")))
    trust, data = shlex.quote(str(files.pair.ca)), shlex.quote(f"@{path}")
    return f"curl --cacert {trust} -H 'Content-Type: application/json' --data {data} {url}"
