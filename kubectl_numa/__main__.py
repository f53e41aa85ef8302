"""`kubectl-numa`, which kubectl runs as `kubectl numa`."""

import io
import os
import signal
import sys


def main() -> None:
    """Run the program; ends the process with its exit code."""
    # Half of the program is not there yet, so that nothing could tell what Ctrl-C means.
    heeded = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(128 + signal.SIGINT))
    from kubectl_numa.cli import program  # noqa: PLC0415  as said above

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that a terminal cannot show must not end the answer.
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGINT, heeded)
    program.main(prog_name="kubectl-numa")


if __name__ == "__main__":
    main()
