"""Gets a program that validates documents by the OCI image specification, built with Go.

The specification publishes its schemas and their validator as a Go module.
"""

from pathlib import Path

from harness.gotools import Workshop

MODULE = "github.com/opencontainers/image-spec"
PROGRAM = "validate-image-document"
HERE = Path(__file__).resolve().parent


WORKSHOP = Workshop("image-spec", HERE)


async def find() -> Path:
    """Where the program is, built first if it must be, in seconds.

    Its argument is a media type; it reads the document from standard input.
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
