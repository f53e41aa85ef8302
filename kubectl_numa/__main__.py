"""`kubectl-numa`, which kubectl runs as `kubectl numa`."""

import io
import sys

from kubectl_numa.cli import program


def main() -> None:
    """Run the program; ends the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that a terminal cannot show must not end the answer.
            stream.reconfigure(errors="backslashreplace")
    program.main(prog_name="kubectl-numa")


if __name__ == "__main__":
    main()
