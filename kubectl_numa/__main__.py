"""`kubectl-numa`, which kubectl runs as `kubectl numa`."""

import gc
import io
import os
import sys

from kubectl_numa.interrupts import end_at_once, ending_at_once

_NEW, _TURNS = 200_000, 50
"""How many new objects are searched for garbage, and after how many times the older ones are too."""


def main() -> None:
    """Run the program; ends the process with its exit code."""
    # Nodes that were read stay until the end: to search them for garbage takes a quarter of all the time.
    gc.set_threshold(_NEW, _TURNS, _TURNS)
    with ending_at_once():
        from kubectl_numa.cli import program  # noqa: PLC0415  Ctrl-C is heeded first

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that a terminal cannot show must not end the answer.
            stream.reconfigure(errors="backslashreplace")
    try:
        program.main(prog_name="kubectl-numa")
    finally:
        _flush()
        # What is left is to take down the interpreter.
        end_at_once()


def _flush() -> None:
    """Write what is buffered while Ctrl-C cannot lose it; to nobody, if the reader of a pipe has gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes again at its end: https://docs.python.org/3/library/signal.html#note-on-sigpipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
