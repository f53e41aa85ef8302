"""docs/reference/http-api.md names every route that the programs declare."""

import ast
import re
from pathlib import Path

import pytest

from numalign.map import http, signing_in
from numalign.runtime import health
from scorer.handlers import HANDLERS
from tools.clusters import shipped
from tools.generate.reference.pages import FOLDER

PAGE = (FOLDER / "http-api.md").read_text(encoding="utf-8")
INSIDE = {"/tiles", "/static/{name}", signing_in.LOGIN, signing_in.LOGOUT}
"""What the map's own pages ask for; nobody else has to."""


def declared(source: str) -> set[str]:
    """The paths that a module gives to `web.get` and `web.post` as they are."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    firsts = (call.args[0] for call in calls if call.args)
    return {
        first.value
        for first in firsts
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.startswith("/")
    }


def webhook_paths() -> set[str]:
    entries = (entry for document in shipped.webhooks() for entry in document["webhooks"])
    return {entry["clientConfig"]["service"]["path"] for entry in entries}


def map_paths() -> set[str]:
    return declared(Path(http.__file__).read_text(encoding="utf-8")) - INSIDE


ROUTES = {
    *webhook_paths(),
    *(f"/{name}" for name in HANDLERS),
    *(re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), path) for path in map_paths()),
    *(health.HEALTH, health.READINESS, health.METRICS, health.STATE),
}


@pytest.mark.parametrize("route", sorted(ROUTES))
def test_every_route_is_named(route: str) -> None:
    assert re.search(rf"`(GET |POST )?{re.escape(route)}`", PAGE)
