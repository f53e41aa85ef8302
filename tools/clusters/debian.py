"""Root file systems of Debian, made by mmdebstrap once and cached outside the tree."""

import os
import subprocess
from pathlib import Path

MIRROR = "https://deb.debian.org/debian"


def archive(suite: str, packages: tuple[str, ...]) -> Path:
    """Return a tar archive of a minimal Debian with apt and these packages. Needs root and a mirror."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numalign" / "debian"
    made = cache / f"{suite}-{'-'.join(packages)}.tar"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = made.with_suffix(f".{os.getpid()}.tar")
        options = ("--mode=root", "--variant=apt", f"--include={','.join(packages)}")
        subprocess.run(["mmdebstrap", *options, suite, unfinished, MIRROR], check=True)  # noqa: S603, S607
        unfinished.rename(made)
    return made
