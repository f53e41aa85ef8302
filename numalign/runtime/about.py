"""
The version of numalign.

Both `--version` and the build metric use it, so that they never differ.
"""

from importlib import metadata


def version(distribution: str = "numalign") -> str:
    """Return the installed version; `unknown` if the tree is run without installation."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
