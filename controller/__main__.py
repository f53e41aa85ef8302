"""`numalign-controller`: reads settings, joins the parts, writes until told to stop."""

import asyncio
import os
import sys

from controller.program import Program, rehearse
from controller.settings import ControllerSettings
from numalign.kube.client import ClusterError
from numalign.model.errors import BadInput
from numalign.runtime import logs, metrics, server
from numalign.runtime.settings import from_command_line

PROGRAM = "numalign-controller"


def main() -> int:
    """Write what is due; the exit code of the program."""
    settings = from_command_line(ControllerSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    if settings.dry_run:
        return _rehearse(settings)
    log = logs.to(sys.stderr, level=settings.log_level, form=settings.log_format)
    program = Program(settings, log, metrics.registry(program=PROGRAM))
    try:
        return server.run(program.serve, log=log)
    except BadInput as error:
        return server.refused(log, error.mistakes)
    except ClusterError as error:
        return server.refused(log, [error])


def _rehearse(settings: ControllerSettings) -> int:
    try:
        sys.stdout.write(f"{asyncio.run(rehearse(settings))}\n")
    except (BadInput, ClusterError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
