"""`numalign-scorer`: reads settings, serves until stopped."""

import os
import sys

from numalign.kube import compose
from numalign.runtime.settings import from_command_line
from scorer.program import ScorerProgram
from scorer.settings import ScorerSettings

PROGRAM = "numalign-scorer"


def main() -> int:
    """Serve; return the exit code."""
    settings = from_command_line(ScorerSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    return compose.start(PROGRAM, settings, ScorerProgram)


if __name__ == "__main__":
    sys.exit(main())
