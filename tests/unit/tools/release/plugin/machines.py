"""Which of the plugin's archives this machine can run."""

import platform
import sys

import pytest

from tools.release.plugin.targets import PLATFORMS, PYTHONS

THIS_PLATFORM = next(
    (each for each in PLATFORMS if (each.system, each.machine) == (platform.system(), platform.machine())),
    None,
)
THIS_PYTHON = (sys.version_info.major, sys.version_info.minor)

needs_an_archive = pytest.mark.skipif(
    THIS_PLATFORM is None or THIS_PYTHON not in PYTHONS, reason="the plugin is not made for this machine"
)
