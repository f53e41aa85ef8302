"""
Which numalign this is.

One place answers `--version` and the build metric, so that the two never differ.
"""

from importlib import metadata

UNKNOWN = "unknown"


def version(distribution: str = "numalign") -> str:
    """Return the installed version; `unknown` when the tree is run without being installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN
