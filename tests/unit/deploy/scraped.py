"""What the running programs really tell a Prometheus, and what expressions ask of it.

    page = await scraped(folder)
    assert missing("sum by (state) (rate(numalign_decisions_total[5m]))", page) == []

Expressions are judged by name: each metric is there, each label stands on it, and each value that a label has
to have exactly is one that it has.
"""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.system.attack import objects
from tests.unit.agent import beside
from tools.clusters import processes, programs
from tools.clusters.http_calls import Door, once
from tools.clusters.programs import Json, Running, Site
from tools.clusters.waiting import until

Series = Mapping[str, str]
"""The labels of one series."""

Page = Mapping[str, list[Series]]
"""By the name that expressions use, the series of a metric."""

OF_PROMETHEUS = frozenset({"instance", "job", "namespace", "pod"})
"""Labels that a Prometheus adds by itself, as the monitors of the chart have it."""

NOT_BROUGHT_ABOUT = frozenset({"5.."})
"""Values that a program in health never shows."""

_EXPORTED = {"namespace": "exported_namespace"}

_SELECTOR = re.compile(r"\b(numalign_[a-z_]+|process_[a-z_]+|python_[a-z_]+)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


async def scraped(folder: Path) -> Page:
    """What all programs say together once each has been asked something."""
    found = defaultdict[str, list[Series]](list)
    async for text in _texts(folder):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name].append(_renamed(sample.labels))
    return found


def _renamed(labels: Series) -> Series:
    """Labels as a Prometheus keeps them that has its own `namespace`, that of the program."""
    return {_EXPORTED.get(label, label): value for label, value in labels.items()}


async def _texts(folder: Path) -> AsyncIterator[str]:
    async with programs.site(folder / "site") as here:
        for program in await _programs(here):
            yield await program.metrics()
    async with _agent(folder) as text:
        yield text


async def _programs(here: Site) -> list[Running]:
    """The webhook, the scorer and the controller, after a review and the calls of a scheduler."""
    nodes = [each for each in objects.nodes(2) if each["kind"] != "Namespace"]
    api = await here.api_server([*nodes, *_misaligned()])
    follow = ("--kubeconfig", str(api.kubeconfig))
    webhook = await here.webhook(*follow, "--gates", "true")
    scorer = await here.scorer(*follow)
    controller = await here.controller(*follow, "--gates", "true", "--heal", "true")
    pod = objects.pod("asked")
    call = objects.filtering(pod, objects.names(nodes))
    for program, path, body in (
        (webhook, "/validate", objects.review(pod)),
        (webhook, "/validate", objects.review(objects.pod("denied", {"cpu": "500", "memory": "1Gi"}))),
        (webhook, "/validate", objects.review(objects.pod("invalid", policy="strictly"))),
        (webhook, "/mutate", objects.review(pod)),
        (scorer, "/filter", call),
        (scorer, "/prioritize", call),
    ):
        assert (await once(program.door, "POST", path, body)).well, path
    for metric, program in (("numalign_pods_below", webhook), ("numalign_misaligned_pods", controller)):
        await processes.until(partial(program.metric, metric), what=metric, child=program.child)
    return [webhook, scorer, controller]


def _misaligned() -> list[Json]:
    """A pod that sits on two zones and asked for one, and one that asks for less than its namespace."""
    amount = {"cpu": 16, "memory": 64 * 2**30}
    loose = objects.node("loose", zones=2, policy="best-effort", amounts=amount, free=50)
    spread = [{"zones": [f"node-{zone}"], "amount": {"cpu": "2", "memory": "512Mi"}} for zone in (0, 1)]
    amounts = {"cpu": "4", "memory": "1Gi"}
    pod = objects.pod("spread", amounts, policy=objects.SINGLE, placement_observed=json.dumps(spread))
    silent = objects.pod("silent", amounts, policy=None)
    return [
        objects.namespace(objects.TEAM, audit=objects.SINGLE),
        *loose,
        *(objects.on("loose", each) for each in (pod, silent)),
    ]


@asynccontextmanager
async def _agent(folder: Path) -> AsyncIterator[str]:
    """What an agent says once it has written."""
    async with beside.node(folder) as node:
        process = await node.start()
        try:
            port = await beside.metrics_port(process)
            await until(node.topology)
            yield (await once(Door(port), "GET", "/metrics")).body.decode()
        finally:
            process.terminate()
            await process.communicate()


def missing(expression: str, page: Page) -> list[str]:
    """What an expression asks for that no program tells."""
    return [*_missing_series(expression, page), *_missing_groupings(expression, page)]


def metrics(expression: str) -> list[str]:
    """The metrics that an expression names."""
    return [name for name, _ in _SELECTOR.findall(expression)]


def _missing_series(expression: str, page: Page) -> Iterator[str]:
    for name, matchers in _SELECTOR.findall(expression):
        series = page.get(name)
        if not series:
            yield name
            continue
        for label, how, wanted in _MATCHER.findall(matchers):
            values = {each[label] for each in series if label in each}
            if label not in OF_PROMETHEUS and not _can_match(how, wanted, values):
                yield f"{name}{{{label}{how}{wanted}}}"


def _can_match(how: str, wanted: str, values: set[str]) -> bool:
    """Whether the values of a label are of the sort that a matcher looks for."""
    if not values:
        return False
    named = {wanted} if how in {"=", "!="} else {*wanted.split("|")}
    return how in {"!=", "!~"} or named <= values | NOT_BROUGHT_ABOUT


def _missing_groupings(expression: str, page: Page) -> Iterator[str]:
    labels = {label for name in metrics(expression) for series in page.get(name, ()) for label in series}
    for group in _GROUPING.findall(expression):
        for label in filter(None, map(str.strip, group.split(","))):
            if label not in labels | OF_PROMETHEUS:
                yield f"by ({label})"
