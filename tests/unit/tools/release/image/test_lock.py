"""The lock names every package by its bytes, and every dependency is decided on."""

import re

from tools.release.image import lock
from tools.release.image.debian import read_lock
from tools.release.image.python import MACHINES

LOCK = read_lock(lock.FILE)


def test_every_platform_has_every_wanted_package_by_its_bytes() -> None:
    assert LOCK.packages.keys() == lock.ARCHITECTURES.keys() == MACHINES.keys()
    for packages in LOCK.packages.values():
        assert tuple(package.name for package in packages) == lock.WANTED
        assert all(re.fullmatch("[0-9a-f]{64}", package.sha256) for package in packages)


def test_platforms_have_the_same_versions() -> None:
    """Rebuilds of one architecture alone (+b1) aside."""
    amd64, arm64 = (
        {package.name: re.sub(r"\+b\d+$", "", package.version) for package in packages}
        for packages in LOCK.packages.values()
    )
    assert amd64 == arm64


def test_the_day_of_the_lock_is_one_that_the_archive_of_packages_is_asked_for() -> None:
    assert re.fullmatch(r"\d{8}T\d{6}Z", LOCK.snapshot)


def test_a_dependency_is_wanted_or_left_out_with_a_reason() -> None:
    fields = {
        "a": {"Depends": "libc6 (>= 2.34), readline | libreadline8:any", "Pre-Depends": "awk"},
        "b": {"Depends": "libnew1 (= 3) | libnewer1, zlib1g"},
    }
    assert lock.unmet(fields) == ["libnew1 | libnewer1"]
    assert all(lock.LEFT_OUT.values())
    assert lock.LEFT_OUT.keys().isdisjoint(lock.WANTED)
