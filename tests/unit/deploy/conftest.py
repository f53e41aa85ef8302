"""Gives helm and promtool to those who need them.

Both are built once with Go, and the image's steps ask a package registry: neither belongs into every run.
`make deploy-test` asks for all; where a program cannot be had, the last lines of the run say so.
"""

import asyncio
from pathlib import Path

import pytest

from tests.unit.deploy.scraped import Page, scraped
from tests.worlds.opt_in import PACKAGING
from tests.worlds.programs import path_of
from tools.clusters import builds


@pytest.fixture(scope="session")
def helm() -> Path:
    """The path of helm, built first if it must be; whoever asks must have the time."""
    with PACKAGING.or_skipped():
        return asyncio.run(builds.helm())


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The path of promtool, built first if it must be; whoever asks must have the time."""
    with PACKAGING.or_skipped():
        return asyncio.run(builds.promtool())


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """What all programs tell a Prometheus."""
    return asyncio.run(scraped(tmp_path_factory.mktemp("scraped")))


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The path of kubectl."""
    return path_of("kubectl")
