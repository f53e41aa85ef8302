"""`numalign-webhook`: reads settings, joins the parts, serves until told to stop."""

import gc
import os
import sys

from numalign.kube.client import ClusterError
from numalign.model.errors import BadInput
from numalign.runtime import logs, metrics, server
from numalign.runtime.settings import from_command_line
from webhook.program import Program
from webhook.settings import WebhookSettings

PROGRAM = "numalign-webhook"


def main() -> int:
    """Serve; the exit code of the program."""
    settings = from_command_line(WebhookSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    log = logs.to(sys.stderr, level=settings.log_level, form=settings.log_format)
    program = Program(settings, log, metrics.registry(program=PROGRAM), settled=_settle)
    try:
        return server.run(program.serve, log=log)
    except BadInput as error:
        return server.refused(log, error.mistakes)
    except ClusterError as error:
        return server.refused(log, [error])


def _settle() -> None:
    """Let no later search for garbage walk through the nodes: with 15,000 of them that takes 0.1 s each time.

    Whoever waits for an answer then would wait as long. What is frozen is still freed when nobody holds it.
    """
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
