"""What every process counts, and how it is told."""

import platform

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from numalign.runtime import about, metrics


def test_a_registry_says_which_program_it_is() -> None:
    labels = {
        "program": "numalign-toy",
        "version": about.version(),
        "python": platform.python_version(),
    }

    registry = metrics.registry(program="numalign-toy")
    assert registry.get_sample_value("numalign_build_info", labels) == 1


def test_a_registry_knows_its_process() -> None:
    memory = metrics.registry(program="t").get_sample_value("process_resident_memory_bytes")

    assert memory is not None
    assert memory > 2**20


def test_two_registries_share_nothing() -> None:
    first, second = metrics.registry(program="a"), metrics.registry(program="b")
    Counter("numalign_toys", "Toys.", registry=first).inc()

    assert first.get_sample_value("numalign_toys_total") == 1
    assert second.get_sample_value("numalign_toys_total") is None


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain"),
        ("text/plain;version=0.0.4;q=0.3,*/*;q=0.1", "text/plain"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
    ],
    ids=["whoever", "an old scraper", "OpenMetrics"],
)
def test_the_text_is_what_the_scraper_accepts(accept: str, content_type: str) -> None:
    registry = CollectorRegistry()
    Counter("numalign_toys", "Toys.", registry=registry).inc(3)
    request = make_mocked_request("GET", "/metrics", headers={"Accept": accept})
    answer = metrics.exposition(request, registry=registry)

    assert answer.content_type == content_type
    assert isinstance(answer.body, bytes)
    families = list(text_string_to_metric_families(answer.body.decode()))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert samples["numalign_toys_total"] == 3
