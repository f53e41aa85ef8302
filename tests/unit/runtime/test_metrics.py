"""What every process counts, and how it is told."""

import asyncio
import itertools
import platform

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.parser import text_string_to_metric_families

from numalign.lru import LRU
from numalign.runtime import about, metrics
from numalign.runtime.metrics import CacheSizes, EvaluatedNodes, MetricsPage
from tests.worlds.notation import table


def test_registry_has_the_program_info() -> None:
    labels = {"program": "numalign-toy", "version": about.version(), "python": platform.python_version()}
    registry = metrics.registry(program="numalign-toy")
    assert registry.get_sample_value("numalign_build_info", labels) == 1
    assert (registry.get_sample_value("process_resident_memory_bytes") or 0) > 2**20


def test_cache_sizes_are_those_at_the_scrape() -> None:
    registry = CollectorRegistry(auto_describe=True)
    texts = LRU[str, str](9)
    numbers = [LRU[int, int](9), LRU[int, int](9)]
    registry.register(CacheSizes((lambda: {"texts": texts}, lambda: {"numbers": numbers[-1]})))

    def shown() -> list[float | None]:
        return [
            registry.get_sample_value("numalign_cache_entries", {"cache": name})
            for name in ("texts", "numbers")
        ]

    assert shown() == [0, 0]
    texts.put("a", "bcd")
    numbers.append(LRU[int, int](9))
    numbers[-1].put(1, 1)
    assert shown() == [1, 1]


def test_evaluated_nodes_are_counted_by_what_answered() -> None:
    registry = CollectorRegistry(auto_describe=True)
    counts = {"columns": 5000, "machine": 3}
    registry.register(EvaluatedNodes(lambda: counts))

    def shown(by: str) -> float | None:
        return registry.get_sample_value("numalign_evaluated_nodes_total", {"by": by})

    assert (shown("columns"), shown("machine"), shown("zones")) == (5000, 3, None)
    counts["machine"] = 4
    assert shown("machine") == 4


@pytest.mark.parametrize(("accept", "content_type"), table([
    ("anybody",        "", "text/plain"),
    ("an old scraper", "text/plain;version=0.0.4;q=0.3,*/*;q=0.1", "text/plain"),
    ("OpenMetrics",    "application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
]))  # fmt: skip
async def test_the_text_is_what_the_scraper_accepts(accept: str, content_type: str) -> None:
    registry = CollectorRegistry()
    Counter("numalign_toys", "Toys.", registry=registry).inc(3)
    page, written_as = await MetricsPage(registry).written(accept)
    assert written_as.partition(";")[0] == content_type
    families = list(text_string_to_metric_families(page.decode()))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert samples["numalign_toys_total"] == 3


async def test_however_many_ask_at_once_the_page_is_written_once() -> None:
    registry = CollectorRegistry()
    written = Gauge("numalign_written", "Written.", registry=registry)
    written.set_function(itertools.count(1).__next__)
    page = MetricsPage(registry)
    await asyncio.gather(*(page.written("") for _ in range(9)))
    assert b"numalign_written 2.0" in (await page.written(""))[0]


async def test_disconnected_scraper_affects_no_other() -> None:
    page = MetricsPage(CollectorRegistry())
    hasty, patient = (asyncio.create_task(page.written("")) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    assert (await patient)[1].startswith("text/plain")
