"""Machines that the plugin is made for, as pip and pex choose wheels for them."""

import platform
import sys

import pytest
from packaging.markers import default_environment
from packaging.tags import sys_tags

from tools.release.plugin.targets import PLATFORMS, PYTHONS, Platform, Target

LINUX, DARWIN = (
    next(each for each in PLATFORMS if each.name == name) for name in ("linux_amd64", "darwin_arm64")
)


def test_platforms_are_named_as_krew_names_them() -> None:
    assert [each.name for each in PLATFORMS] == ["linux_amd64", "linux_arm64", "darwin_arm64"]


@pytest.mark.parametrize(
    ("where", "tag"),
    [
        (LINUX, "cp311-cp311-manylinux_2_17_x86_64"),
        (LINUX, "cp311-abi3-manylinux_2_28_x86_64"),
        (LINUX, "cp310-abi3-manylinux2014_x86_64"),
        (LINUX, "py3-none-any"),
        (DARWIN, "cp311-cp311-macosx_11_0_arm64"),
        (DARWIN, "cp311-cp311-macosx_10_9_universal2"),
    ],
)
def test_wheels_that_run_there_are_taken(where: Platform, tag: str) -> None:
    assert tag in Target(where, (3, 11)).complete_platform()["compatible_tags"]


@pytest.mark.parametrize(
    ("where", "tag"),
    [
        (LINUX, "cp312-cp312-manylinux_2_17_x86_64"),
        (LINUX, "cp311-cp311-manylinux_2_17_aarch64"),
        (LINUX, "cp311-cp311-manylinux_2_34_x86_64"),
        (LINUX, "cp311-cp311-musllinux_1_2_x86_64"),
        (DARWIN, "cp311-cp311-macosx_14_0_arm64"),
        (DARWIN, "cp311-cp311-macosx_11_0_x86_64"),
    ],
)
def test_wheels_that_may_not_run_there_are_not(where: Platform, tag: str) -> None:
    assert tag not in Target(where, (3, 11)).complete_platform()["compatible_tags"]


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") or sys.version_info[:2] not in PYTHONS,
    reason="tests run on a machine that the plugin is not made for",
)
def test_what_is_said_of_this_machine_is_what_it_says_of_itself() -> None:
    target = Target(LINUX, (sys.version_info.major, sys.version_info.minor))
    here = default_environment()
    vague = {"platform_release", "platform_version", "implementation_version", "python_full_version"}
    assert {name: value for name, value in target.markers().items() if name not in vague} == {
        name: value for name, value in here.items() if name not in vague
    }
    assert set(target.complete_platform()["compatible_tags"]) - {str(tag) for tag in sys_tags()} <= {
        tag for tag in target.complete_platform()["compatible_tags"] if "manylinux_2_2" in tag
    }
