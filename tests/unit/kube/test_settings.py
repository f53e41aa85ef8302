"""Settings of the cluster of a program."""

import pytest

from numalign.kube.settings import SourceSettings
from numalign.runtime.clock import seconds
from numalign.runtime.settings import SettingsError, load
from tests.worlds.notation import table


@pytest.mark.parametrize(("text", "span"), table([
    # what it shows      text      seconds
    ("days",             "30d",    30 * 86400.0),
    ("minutes",          "90m",    5400.0),
    ("seconds",          "45s",    45.0),
    ("none",             "0",      0.0),
]))  # fmt: skip
def test_durations(text: str, span: float) -> None:
    chosen = load(SourceSettings, argv=["--remember-shapes", text], environ={}).settings
    assert (seconds(text), chosen.remember_seconds) == (span, span)


@pytest.mark.parametrize("text", ["30", "-1d", "1.5h", "1w", "d", "1d12h", " 1d", "9" * 10 + "d", "\u0661d"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(SettingsError, match="a duration is a whole number of s, m, h or d"):
        load(SourceSettings, argv=[f"--remember-shapes={text}"], environ={})


def test_shapes_are_remembered_for_a_month_by_default() -> None:
    loaded = load(SourceSettings, argv=[], environ={})
    assert loaded.settings.remember_seconds == 30 * 86400
    assert "remember_shapes: 30d" in str(loaded)
