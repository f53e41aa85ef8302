"""Downloads files by their SHA-256 digests, and caches them."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tools.release.image.errors import BuildError

_SECONDS = 60


def cache() -> Path:
    """Return the folder of cached downloads, outside the tree."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "numalign" / "image"


def fetch(urls: Sequence[str], sha256: str) -> bytes:
    """Return the file with that digest, from the cache or else from the first URL that has it.

    Raise `BuildError` if no URL has it.
    """
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
    """Return the content of a URL. Raise `OSError` if it cannot be read."""
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
