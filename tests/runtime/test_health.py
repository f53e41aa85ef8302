"""What is counted is told in the form that a scraper asks for."""

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from numalign.runtime import health


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
    answer = health.exposition(request, registry=registry)

    assert answer.content_type == content_type
    assert isinstance(answer.body, bytes)
    families = list(text_string_to_metric_families(answer.body.decode()))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert samples["numalign_toys_total"] == 3
