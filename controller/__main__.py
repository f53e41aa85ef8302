"""`numalign-controller`: reads settings, writes to the cluster until stopped."""

import asyncio
import os
import sys

from controller.dry_run import dry_run
from controller.program import ControllerProgram
from controller.settings import ControllerSettings
from numalign.kube import compose
from numalign.kube.errors import ClusterError
from numalign.model.errors import BadInput
from numalign.runtime.settings import from_command_line

PROGRAM = "numalign-controller"


def main() -> int:
    """Write what is due, or print what would be written; return the exit code."""
    settings = from_command_line(ControllerSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    if not settings.dry_run:
        return compose.start(PROGRAM, settings, ControllerProgram)
    try:
        sys.stdout.write(f"{asyncio.run(dry_run(settings))}\n")
    except (BadInput, ClusterError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
