"""What the processes beside a test wrote, shown where it failed."""

import pytest

from tools.clusters.processes import Children

CHILDREN = pytest.StashKey[Children]()
"""All processes of a run, as soon as there are any."""


def with_output(report: pytest.TestReport, config: pytest.Config) -> pytest.TestReport:
    """The report of a test; if it failed, with what each process wrote meanwhile."""
    if everyone := config.stash.get(CHILDREN, None):
        written = [(f"{name} wrote meanwhile", text) for name, text in everyone.written().items()]
        report.sections += written if report.failed else []
    return report
