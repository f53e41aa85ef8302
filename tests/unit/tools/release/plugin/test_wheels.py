"""Which requirements of a lock count for another machine."""

from pathlib import Path

import pytest

from tools.release.plugin.targets import PLATFORMS, PYTHONS, Target
from tools.release.plugin.wheels import UnreadableLockError, pinned_for

ROOT = Path(__file__).parents[5]
LOCK = (ROOT / "requirements" / "programs.txt").read_text()
TARGETS = [Target(platform, python) for platform in PLATFORMS for python in PYTHONS]
HASH = f"    --hash=sha256:{'0' * 64}\n"


def pins(lock: str, target: Target) -> list[str]:
    return [text.split()[0] for text in pinned_for(target, lock)]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_package_of_the_lock_is_there_once(target: Target) -> None:
    names = [pin.partition("==")[0] for pin in pins(LOCK, target)]
    assert len(names) == len(set(names))
    assert {"numpy", "aiohttp", "cryptography", "click"} <= set(names)


def test_markers_are_those_of_the_target_and_not_of_this_python() -> None:
    lock = (
        f"a==1 ; python_full_version < '3.12' \\\n{HASH}"
        f"a==2 ; python_full_version >= '3.12' \\\n{HASH}"
        f"b==1 ; sys_platform == 'darwin' \\\n{HASH}"
    )
    linux, _, darwin = PLATFORMS
    assert pins(lock, Target(linux, (3, 11))) == ["a==1"]
    assert pins(lock, Target(darwin, (3, 14))) == ["a==2", "b==1"]


def test_hashes_stay_and_markers_go() -> None:
    [text] = pinned_for(TARGETS[0], f"# made by\na==1 ; python_version > '3' \\\n{HASH}")
    assert text == f"a==1 \\\n{HASH}"


@pytest.mark.parametrize("line", ["a==1", "a>=1 \\\n" + HASH, "-e .", "--index-url https://example.com"])
def test_a_line_without_pin_or_hash_is_named(line: str) -> None:
    with pytest.raises(UnreadableLockError, match=line.split(maxsplit=1)[0]):
        list(pinned_for(TARGETS[0], f"{line}\n"))
