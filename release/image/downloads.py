"""Fetches files by the SHA-256 of their bytes, and keeps them."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from release.image.errors import BuildError

_SECONDS = 60


def cache() -> Path:
    """Where downloads are kept, outside the tree."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "numalign" / "image"


def fetch(urls: Sequence[str], sha256: str) -> bytes:
    """The bytes of that digest: kept ones, else those of the first URL that has them; raises `BuildError`."""
    kept = cache() / "sha256" / sha256
    if kept.is_file() and _digest(content := kept.read_bytes()) == sha256:
        return content
    problems: list[str] = []
    for url in urls:
        try:
            content = read(url)
        except OSError as problem:
            problems.append(f"{url}: {problem}")
            continue
        if _digest(content) == sha256:
            return _keep(kept, content)
        problems.append(f"{url}: its SHA-256 is {_digest(content)}")
    raise BuildError(f"no source has the file with SHA-256 {sha256}:\n  " + "\n  ".join(problems))


def read(url: str) -> bytes:
    """What is at a URL; raises `OSError`."""
    with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310  the caller's URLs are http(s)
        content: bytes = answer.read()
    return content


def _keep(path: Path, content: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
