"""`numalign-scorer`: reads settings, joins the parts, serves until told to stop."""

import os
import sys

from numalign.kube.client import ClusterError
from numalign.model.errors import BadInput
from numalign.runtime import logs, metrics, server
from numalign.runtime.settings import from_command_line
from scorer.program import Program
from scorer.settings import ScorerSettings

PROGRAM = "numalign-scorer"


def main() -> int:
    """Serve; the exit code of the program."""
    settings = from_command_line(ScorerSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    log = logs.to(sys.stderr, level=settings.log_level, form=settings.log_format)
    program = Program(settings, log, metrics.registry(program=PROGRAM))
    try:
        return server.run(program.serve, log=log)
    except BadInput as error:
        return server.refused(log, error.mistakes)
    except ClusterError as error:
        return server.refused(log, [error])


if __name__ == "__main__":
    sys.exit(main())
