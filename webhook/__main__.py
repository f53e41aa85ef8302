"""`numalign-webhook`: reads settings, joins the parts, serves until told to stop."""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import cast

from numalign.runtime import logs, metrics, server
from numalign.runtime.settings import from_command_line
from webhook.app import application
from webhook.catalogue import Catalogue
from webhook.settings import WebhookSettings

PROGRAM = "numalign-webhook"


def main() -> int:
    """Serve; the exit code of the program."""
    settings = from_command_line(WebhookSettings, prog=PROGRAM, argv=sys.argv[1:], environ=os.environ)
    log = logs.to(sys.stderr, level=settings.log_level, form=settings.log_format)
    registry = metrics.registry(program=PROGRAM)
    # The settings are not loaded without it.
    snapshot = cast("Path", settings.snapshot)
    catalogue = Catalogue(snapshot, log=log, registry=registry, clock=time.monotonic)
    catalogue.load()
    app = application(settings, catalogue=catalogue, log=log, registry=registry)
    follow = partial(catalogue.follow, every=settings.snapshot_reload_seconds)
    return server.run(app, settings, tasks={"snapshot": follow} if settings.snapshot_reload_seconds else {})


if __name__ == "__main__":
    sys.exit(main())
