"""Leaves the oracle's tests out of a run that does not ask for them: to build it takes Go, and minutes."""

import pytest

LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "oracle: needs the kubelet's own managers; run with -m oracle")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "oracle" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("oracle")]
    items[:] = [item for item in items if not item.get_closest_marker("oracle")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(LEFT_OUT, 0):
        what = f"{count} tests of the kubelet's own managers were not asked for"
        terminalreporter.line(f"{what}; to run them: make oracle-test")
    skipped = [one for one in terminalreporter.stats.get("skipped", []) if "oracle" in one.keywords]
    if skipped:
        terminalreporter.section("THE KUBELET'S OWN MANAGERS WERE NOT ASKED", yellow=True, bold=True)
        for reason in sorted({one.longrepr[2] for one in skipped}):
            terminalreporter.line(reason, yellow=True)
