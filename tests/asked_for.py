"""
Leaves tests out of a run that does not ask for them.

Some tests need what takes minutes to build, or a network. They carry a mark, which a run asks for by name;
what is left out is counted in the table at its end (tests/not_run.py), so that nobody takes silence for
success.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.gotools import UnavailableError


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Tests with a mark: what they need, what they are of, and the command that runs them.

    The hooks of a conftest.py call the methods of the same purpose; several may do so in one run. `skipped`
    stands before the reason where tests were asked for and could not be run.
    """

    mark: str
    needs: str
    of: str
    command: str
    skipped: str = "NOTHING OF THIS WAS TESTED"
    left_out: pytest.StashKey[int] = field(default_factory=pytest.StashKey[int])
    remarks: pytest.StashKey[list[str]] = field(default_factory=pytest.StashKey[list[str]])

    def declare(self, config: pytest.Config) -> None:
        """Make the mark known."""
        config.addinivalue_line("markers", f"{self.mark}: needs {self.needs}; run with -m {self.mark}")

    def leave_out(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Drop the tests with the mark, unless the run names it."""
        if self.mark in config.option.markexpr:
            return
        left_out = [item for item in items if item.get_closest_marker(self.mark)]
        items[:] = [item for item in items if not item.get_closest_marker(self.mark)]
        config.hook.pytest_deselected(items=left_out)
        config.stash[self.left_out] = config.stash.get(self.left_out, 0) + len(left_out)

    def leave_out_folder(
        self,
        config: pytest.Config,
        items: list[pytest.Item],
        folder: Path,
        build: Callable[[], Coroutine[Any, Any, object]],
    ) -> None:
        """Mark and drop as above all tests below a folder, or have what they need built before the first.

        If that cannot be had here, they are skipped.
        """
        files = {path for path in {item.path for item in items} if folder in path.parents}
        for item in items:
            if item.path in files:
                item.add_marker(self.mark)
        self.leave_out(config, items)
        wanted = [item for item in items if item.path in files]
        if not wanted or config.option.collectonly:
            return
        capture = config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                asyncio.run(build())
        except UnavailableError as error:
            for item in wanted:
                item.add_marker(pytest.mark.skip(reason=f"{self.skipped}: {error}"))

    def remark(self, config: pytest.Config, line: str) -> None:
        """Have a line printed at the end of the run."""
        config.stash.setdefault(self.remarks, []).append(line)

    @contextmanager
    def or_skipped(self) -> Iterator[None]:
        """Skip the test, or all that need the fixture, if what it needs cannot be had here."""
        try:
            yield
        except UnavailableError as error:
            pytest.skip(f"{self.skipped}: {error}")

    def tell(self, reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the lines that were kept for the end."""
        if remarks := config.stash.get(self.remarks, []):
            reporter.section(f"seen of {self.of}")
            for line in remarks:
                reporter.line(line)


KUBELETS = AskedFor(
    "kubelets",
    "root and Go",
    of="real kubelets",
    command="make e2e-kubelets",
    skipped="REAL KUBELETS WERE NOT TESTED",
)
ORACLE = AskedFor(
    "oracle",
    "the kubelet's own managers",
    of="the kubelet's own managers",
    command="make oracle-test",
    skipped="THE KUBELET'S OWN MANAGERS WERE NOT ASKED",
)
WORKLOADS = AskedFor(
    "workloads",
    "root and Go",
    of="workloads on real kubelets",
    command="make e2e-workloads",
    skipped="NO WORKLOAD WAS TESTED ON REAL KUBELETS",
)
PACKAGING = AskedFor(
    "packaging",
    "helm or a package registry",
    of="the chart and of the image's steps",
    command="make deploy-test",
    skipped="THE CHART WAS NOT TESTED",
)
BROWSER = AskedFor(
    "browser",
    "a Chromium on PATH, or named by CHROMIUM",
    of="the map in a real browser",
    command="make browser-test",
    skipped="NO BROWSER LOOKED AT THE MAP",
)
RELEASE = AskedFor(
    "release",
    "a package registry",
    of="what is released",
    command="make release-test",
    skipped="NOT ALL THAT IS RELEASED WAS TESTED",
)
CLEAN_ROOT = AskedFor(
    "clean_root",
    "root, mmdebstrap, Go, kubectl and package registries",
    of="what a new user types in a clean Debian",
    command="make e2e-clean-root",
    skipped="NOTHING WAS TRIED IN A CLEAN DEBIAN",
)
FULL = AskedFor(
    "full",
    "time",
    of="tools, benchmarks and documents",
    command="make test PROFILE=full",
)
IMAGES = AskedFor(
    "images",
    "root, containerd, Go and a package registry",
    of="the images and of what runs from them",
    command="make e2e-image",
    skipped="NO IMAGE WAS BUILT AND RUN",
)

ALL = (FULL, PACKAGING, RELEASE, ORACLE, KUBELETS, WORKLOADS, BROWSER, IMAGES, CLEAN_ROOT)


def counts(config: pytest.Config) -> dict[str, int]:
    """By mark how many tests were left out."""
    left_out = {each.mark: config.stash.get(each.left_out, 0) for each in ALL}
    return {mark: count for mark, count in left_out.items() if count}


def take_counts(config: pytest.Config, counted: dict[str, int]) -> None:
    """Take over what another process counted, which collected the same tests."""
    for each in ALL:
        config.stash[each.left_out] = counted.get(each.mark, 0)
