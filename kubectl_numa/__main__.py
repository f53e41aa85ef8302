"""`kubectl-numa`, which kubectl runs as `kubectl numa`."""

import gc
import io
import os
import sys

from kubectl_numa.interrupts import end_at_once, ending_at_once


def main() -> None:
    """Run the program; end the process with its exit code."""
    # Nodes that were read stay until the end: collecting garbage among them takes a quarter of the time.
    gc.set_threshold(200_000, 50, 50)
    with ending_at_once():
        from kubectl_numa.cli import program  # noqa: PLC0415  Ctrl-C is heeded first

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that a terminal cannot show must not end the program.
            stream.reconfigure(errors="backslashreplace")
    try:
        program.main(prog_name="kubectl-numa")
    finally:
        try:
            # What is buffered is written before Ctrl-C can lose it.
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter flushes again: https://docs.python.org/3/library/signal.html#note-on-sigpipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Only the interpreter's shutdown is left.
        end_at_once()


if __name__ == "__main__":
    main()
