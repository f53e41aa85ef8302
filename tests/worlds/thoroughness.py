"""
How much a run tries.

`make test` tries a sample, `make test PROFILE=full` what `.ci/run` asks of every change, and `make laws`
thousands of inputs that nobody has seen. The first two draw the same inputs every time, so that two runs of
one tree say the same. A sample of the whole suite leaves out tests with the mark `full` too: those of tools,
documents and artefacts, which no program depends on that users run, of bounds that only much input reaches,
and others that take long. They run where their file or folder is named.
"""

from enum import StrEnum

from hypothesis import settings


class Thoroughness(StrEnum):
    """The profiles of Hypothesis that there are: pytest --hypothesis-profile=..."""

    SAMPLE = "sample"
    FULL = "full"
    THOROUGH = "thorough"


EXAMPLES = {Thoroughness.SAMPLE: 5, Thoroughness.FULL: 40, Thoroughness.THOROUGH: 2000}
"""The inputs that a law is tried on."""


def thoroughness() -> Thoroughness:
    return Thoroughness(settings.get_current_profile_name())
