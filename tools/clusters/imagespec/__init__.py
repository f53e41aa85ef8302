"""Finds or builds a program that validates documents by the OCI image specification.

The specification publishes its schemas and their validator as a Go module.
"""

from pathlib import Path

from tools.clusters.gotools import Workshop

MODULE = "github.com/opencontainers/image-spec"
PROGRAM = "validate-image-document"
HERE = Path(__file__).resolve().parent


WORKSHOP = Workshop("image-spec", HERE)


async def find() -> Path:
    """Return the path of the program; build it first if necessary, in seconds.

    The argument of the program is a media type; it reads the document from standard input.
    """
    version = WORKSHOP.required(MODULE)
    cached = WORKSHOP.place(version, PROGRAM, [HERE / "main.go"])
    if not cached.exists():
        await WORKSHOP.build(
            ".",
            into=cached,
            begins=f"building {PROGRAM} of image-spec {version}",
            otherwise=f"no {PROGRAM}: install Go to build it",
        )
    return cached
