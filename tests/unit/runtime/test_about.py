"""Which numalign this is."""

import pytest

from numalign.runtime import about


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [("pytest", pytest.__version__), ("no-such-distribution-anywhere", "unknown")],
    ids=["an installed distribution", "a tree that is not installed"],
)
def test_version_of(distribution: str, expected: str) -> None:
    assert about.version(distribution) == expected
