"""What all tests share: how much is tried, that no input is too slow to try, and a process kept lean."""

import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.worlds import not_run, opt_in
from tests.worlds.child_output import with_output
from tests.worlds.opt_in import LEFT_OUT
from tests.worlds.programs import path_of
from tests.worlds.thoroughness import EXAMPLES, Thoroughness

# Laws run beside everything else on small machines: a slow input is no mistake.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

for _profile, _examples in EXAMPLES.items():
    settings.register_profile(
        _profile, PATIENT, max_examples=_examples, derandomize=_profile is not Thoroughness.THOROUGH
    )
settings.load_profile(Thoroughness.SAMPLE)

# By its own measure the collector walks all that fixtures and caches hold every few tests.
gc.set_threshold(50_000, 20, 50)
# While tests are collected nothing becomes garbage that would be worth a look.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(program): calls a program that not every machine has")
    for each in opt_in.ALL:
        each.declare(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if opt_in.need_not_be_read(config, collection_path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    opt_in.leave_out(config, items)


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests again and again: they are there until the end."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose program is missing before its fixtures are made."""
    for mark in item.iter_markers("needs"):
        path_of(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return with_output((yield), item.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, if any, how many tests were left out: it collects none.

    pytest collects garbage five times at its end, to see what was never closed: once finds it.
    """
    gc.collect()
    gc.freeze()
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  xdist has no types
    if (counts := getattr(node, "workeroutput", {}).get("left_out")) is not None:
        node.config.stash[LEFT_OUT] = counts


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for each in opt_in.ALL:
        each.tell(terminalreporter, config)
    not_run.tell(terminalreporter, config)
