"""
Leaves tests out of a run that does not ask for them.

Some tests need what takes minutes to build, or a network. They carry a mark, which a run asks for by name;
what is left out is counted in the table at its end (tests/worlds/not_run.py), so that nobody takes silence
for success.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.thoroughness import Thoroughness, thoroughness
from tools.clusters.gotools import UnavailableError


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Tests with a mark: what they need, what they are of, and the command that runs them.

    `skipped` stands before the reason where tests were asked for and could not be run.
    """

    mark: str
    needs: str
    of: str
    command: str
    skipped: str = "NOTHING OF THIS WAS TESTED"
    remarks: pytest.StashKey[list[str]] = field(default_factory=pytest.StashKey[list[str]])

    def declare(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", f"{self.mark}: needs {self.needs}; run with -m {self.mark}")

    def claim(
        self,
        config: pytest.Config,
        items: list[pytest.Item],
        folder: Path,
        build: Callable[[], Coroutine[Any, Any, object]],
    ) -> None:
        """Mark all tests below a folder, and have what they need built if the run names the mark.

        If that cannot be had here, they are skipped.
        """
        files = {path for path in {item.path for item in items} if folder in path.parents}
        claimed = [item for item in items if item.path in files]
        for item in claimed:
            item.add_marker(self.mark)
        if not claimed or self.mark not in config.option.markexpr or config.option.collectonly:
            return
        capture = config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                asyncio.run(build())
        except UnavailableError as error:
            for item in claimed:
                item.add_marker(pytest.mark.skip(reason=f"{self.skipped}: {error}"))

    def remark(self, config: pytest.Config, line: str) -> None:
        config.stash.setdefault(self.remarks, []).append(line)

    @contextmanager
    def or_skipped(self) -> Iterator[None]:
        """Skip the test, or all that need the fixture, if what it needs cannot be had here."""
        try:
            yield
        except UnavailableError as error:
            pytest.skip(f"{self.skipped}: {error}")

    def tell(self, reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if remarks := config.stash.get(self.remarks, []):
            reporter.section(f"seen of {self.of}")
            for line in remarks:
                reporter.line(line)


KUBELETS = AskedFor(
    "kubelets", "root and Go", "real kubelets", "make e2e-kubelets", "REAL KUBELETS WERE NOT TESTED"
)
MANAGERS = "the kubelet's own managers"
ORACLE = AskedFor(
    *("oracle", MANAGERS, MANAGERS, "python -m pytest tests/kubelet/oracle -m oracle"),
    "THE KUBELET'S OWN MANAGERS WERE NOT ASKED",
)
WORKLOADS = AskedFor(
    *("workloads", "root and Go", "workloads on real kubelets", "make e2e-workloads"),
    "NO WORKLOAD WAS TESTED ON REAL KUBELETS",
)
ECOSYSTEM = AskedFor(
    *("ecosystem", "root and Go", "programs of other projects beside numalign", "make e2e-ecosystem"),
    "NO PROGRAM OF ANOTHER PROJECT WAS TESTED",
)
PACKAGING = AskedFor(
    *("packaging", "helm or a package registry", "the chart and of the image's steps", "make deploy-test"),
    "THE CHART WAS NOT TESTED",
)
CHROMIUM = "a Chromium on PATH, or named by CHROMIUM"
BROWSER = AskedFor(
    "browser", CHROMIUM, "the map in a real browser", "make browser-test", "NO BROWSER LOOKED AT THE MAP"
)
RELEASE = AskedFor(
    *("release", "a package registry", "what is released", "make release-test"),
    "NOT ALL THAT IS RELEASED WAS TESTED",
)
CLEAN_ROOT = AskedFor(
    *("clean_root", "root, mmdebstrap, Go, kubectl and package registries"),
    "what a new user types in a clean Debian",
    "python -m pytest tests/system/clean_root -m clean_root -o addopts=",
    "NOTHING WAS TRIED IN A CLEAN DEBIAN",
)
FULL = AskedFor("full", "time", "tools, documents, artefacts, and others", "make test PROFILE=full")
IMAGES = AskedFor(
    *("images", "root, containerd, Go and a package registry"),
    "the images and of what runs from them",
    "make e2e-image",
    "NO IMAGE WAS BUILT AND RUN",
)

ALL = (FULL, PACKAGING, RELEASE, ORACLE, KUBELETS, WORKLOADS, ECOSYSTEM, BROWSER, IMAGES, CLEAN_ROOT)

NEEDS_TIME = frozenset(
    Path(__file__).parents[1] / folder
    for folder in (
        "kubelet/machines", "kubelet/oracle", "unit/deploy", "unit/docs", "unit/examples", "unit/reference",
        "unit/simulation", "unit/tools",
    )
)  # fmt: skip
"""Folders of tests that are marked as FULL, but for those with another mark."""

LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""By mark how many tests were left out of the run."""


def is_sample(config: pytest.Config) -> bool:
    """Whether it is a sample of everything: no files or folders are named."""
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everything and thoroughness() is Thoroughness.SAMPLE


def counts(config: pytest.Config) -> bool:
    """Whether this process counts what is left out: the first, if several run the tests."""
    workerinput: dict[str, str] = getattr(config, "workerinput", {})
    return workerinput.get("workerid", "gw0") == "gw0"


def need_not_be_read(config: pytest.Config, path: Path) -> bool:
    """Whether all tests in a folder are left out, and another process counts them."""
    dropped = is_sample(config) and not config.option.markexpr
    return dropped and path in NEEDS_TIME and not counts(config)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the tests with a mark that the run does not name.

    Those of FULL are dropped only from a sample of everything, and not where files or folders are named.
    """
    marks = {each.mark for each in ALL}
    named = {mark for mark in marks if mark in config.option.markexpr}
    if not is_sample(config):
        named.add(FULL.mark)
    of_tools = {path for path in {item.path for item in items} if not NEEDS_TIME.isdisjoint(path.parents)}
    kept, dropped, by_mark = [], [], Counter[str]()
    for item in items:
        mark = next((mark.name for mark in item.iter_markers() if mark.name in marks), None)
        if mark is None and item.path in of_tools:
            mark = FULL.mark
        if mark is None or mark in named:
            kept.append(item)
        else:
            dropped.append(item)
            by_mark[mark] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)
    if counts(config):
        config.stash[LEFT_OUT] = dict(by_mark)
