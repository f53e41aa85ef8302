"""The version of numalign, the same for `--version` and the build metric."""

from importlib import metadata


def version(distribution: str = "numalign") -> str:
    """Return the installed version; `unknown` if the tree is run without installation."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
