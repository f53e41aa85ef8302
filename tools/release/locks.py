"""Writes the lock, requirements/*.txt: exact versions, with hashes, for each use of the tree.

`make lock` renews all versions: uv resolves pyproject.toml once, for every Python and platform, as if nothing
had been released after `--as-of` (default: now). It writes that time into pyproject.toml, so that `uv sync`
resolves to the same versions. The files are subsets of this one resolution.

With `--check`, it only sees whether the files and pyproject.toml agree. That needs only the standard library
and no network: it runs before anything is installed. Exit code 1: uv failed, or the files do not agree.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "requirements"

LOCKS = {
    "programs": ("--no-default-groups",),
    "image": ("--no-default-groups", "--extra", "tracing"),
    "agent": ("--only-group", "agent"),
    "build": ("--only-group", "build"),
    "installers": ("--only-group", "installers"),
    "test": ("--no-default-groups", "--extra", "tracing", "--group", "test"),
    "dev": ("--extra", "tracing", "--group", "dev"),
}
"""The options of `uv export` by the name of the file."""

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
"""Where every package must have a wheel, in the words of `uv pip install --python-platform`."""

_HEAD = """\
# Written by `make lock`. Do not edit: change pyproject.toml and run `make lock`.
# pyproject.toml: sha256 {declared}
# lines below: sha256 {pinned}
"""
_WRITTEN = re.compile(re.escape(_HEAD).replace(r"\{declared\}", "(.*)").replace(r"\{pinned\}", "(.*)"))
_AS_OF = re.compile(r'^exclude-newer = ".*"$', re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release.locks")
    parser.add_argument("--check", action="store_true", help="only see whether the files agree")
    parser.add_argument("--uv", default="uv", help="the uv program (default: %(default)s)")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    parser.add_argument("--as-of", default=now, metavar="TIME", help="ignore later releases (default: now)")
    options = parser.parse_args(arguments)
    if options.check:
        disagreements = list(check(ROOT))
        sys.stderr.writelines(f"{line}\n" for line in disagreements)
        return bool(disagreements)
    try:
        renew(ROOT, options.uv, options.as_of)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{error}\n{error.stderr}")
        return 1
    return 0


def check(root: Path) -> Iterator[str]:
    """Yield sentences about files that were changed by hand or do not belong to pyproject.toml."""
    declared, others = _declared(root), []
    for name in LOCKS:
        file = root / FOLDER / f"{name}.txt"
        text = file.read_text() if file.exists() else ""
        head = _WRITTEN.match(text)
        if head is None:
            yield f"{FOLDER}/{name}.txt is missing or was not written by `make lock`: run `make lock`"
        elif head[2] != _sha256(text[head.end() :]):
            remedy = f"restore it with `git checkout {FOLDER}`"
            change = "to change a version, change pyproject.toml and run `make lock`"
            yield f"{FOLDER}/{name}.txt was changed by hand: {remedy}; {change}"
        elif head[1] != declared:
            others.append(f"{name}.txt")
    if others:
        wrong = f"{', '.join(others)} written for other dependencies than pyproject.toml declares"
        yield f"{FOLDER}: {wrong}: run `make lock`, and commit both"


def renew(root: Path, uv: str, as_of: str) -> None:
    """Resolve pyproject.toml as of a time, and write all files.

    Nothing is written unless every package has a wheel for each of `PYTHONS` and `PLATFORMS`. Raise
    `CalledProcessError` if uv fails.
    """
    project = root / "pyproject.toml"
    resolved, found = _AS_OF.subn(f'exclude-newer = "{as_of}"', project.read_text())
    if not found:
        sys.exit(f'{project}: add exclude-newer = "{as_of}" below [tool.uv]: a lock is as of a time')
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / project.name).write_text(resolved)
        run = partial(subprocess.run, cwd=folder, capture_output=True, text=True, check=True)
        run([uv, "lock", "--quiet"])
        plain = ("--frozen", "--quiet", "--no-emit-project", "--no-annotate", "--no-header")
        for name, options in LOCKS.items():
            pinned = run([uv, "export", *plain, *options]).stdout
            head = _HEAD.format(declared=_declared(folder), pinned=_sha256(pinned))
            (folder / f"{name}.txt").write_text(head + pinned)
        for name, python, platform in product(LOCKS, PYTHONS, PLATFORMS):
            sys.stdout.write(f"looking for wheels of {name}.txt for Python {python} on {platform}\n")
            run(
                [
                    *(uv, "pip", "install", "--quiet", "--dry-run", "--no-deps", "--require-hashes"),
                    *("--only-binary", ":all:", "--target", str(folder / "wheels")),
                    *("--python-version", python, "--python-platform", platform),
                    *("--requirement", f"{name}.txt"),
                ]
            )
        project.write_text(resolved)
        for name in LOCKS:
            shutil.copy(folder / f"{name}.txt", root / FOLDER)


def _declared(root: Path) -> str:
    """Return the digest of what decides the versions: Python, dependencies, extras, groups, uv settings."""
    content = tomllib.loads((root / "pyproject.toml").read_text())
    project = content["project"]
    keys = ("requires-python", "dependencies", "optional-dependencies")
    deciding = [[project[key] for key in keys], content["dependency-groups"], content["tool"]["uv"]]
    return _sha256(repr(deciding))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
