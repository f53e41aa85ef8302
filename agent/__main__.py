"""
`numalign-agent`: reads settings, then becomes the daemon.

Checking settings and explaining mistakes in them takes libraries that the daemon does not need, and they
would stay in memory as long as it runs. So this process replaces itself: `agent.daemon` starts with nothing
but the checked values.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agent import options
from agent.options import AgentOptions
from agent.settings import AgentSettings
from numalign.kube import access
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.runtime import sources
from numalign.runtime.settings import EVERYWHERE, from_command_line

PROGRAM = "numalign-agent"


def main() -> int:
    """Check the settings and become the daemon; return only if they are invalid."""
    environ = with_pod_variables(os.environ)
    settings = from_command_line(AgentSettings, prog=PROGRAM, argv=sys.argv[1:], environ=environ)
    try:
        agent_options = checked(settings, environ)
    except ClusterError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 2
    arguments = [sys.executable, "-P", "-m", f"{__package__}.daemon", str(options.hand_over(agent_options))]
    return os.execve(sys.executable, arguments, {**_MALLOC_OPTIONS, **os.environ})  # noqa: S606  no shell


_MALLOC_OPTIONS = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(2**16)}
"""Options of the C library (mallopt(3)): temporary memory must not stay allocated forever."""


def with_pod_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with NODE_NAME and NODE_ADDRESS, as defaults of our variables."""
    names = [name for name in ("node_name", "node_address") if name.upper() in environ]
    return {**{sources.variable(name): environ[name.upper()] for name in names}, **environ}


def checked(settings: AgentSettings, environ: Mapping[str, str]) -> AgentOptions:
    """Return the settings as the daemon needs them; raise `Unconfigured` if there is no API server."""
    values = settings.model_dump(exclude={"kubeconfig", "context"})
    values = {name: value.absolute() if isinstance(value, Path) else value for name, value in values.items()}
    values["bind"] = None if settings.bind == EVERYWHERE else settings.bind
    named = settings.kubeconfig or settings.context or environ.get("KUBECONFIG")
    try:
        if not named and access.in_a_pod(environ):
            values["access"] = access.of_account(environ=environ)
        else:
            # A pod does not need this module, and it takes more memory than all the rest.
            from numalign.kube import client  # noqa: PLC0415  imported only if needed

            values["access"] = asyncio.run(client.access(Connection(settings.kubeconfig, settings.context)))
    except ClusterError:
        if named or settings.output is None:
            raise
        values["access"] = None
    return AgentOptions(**values)


if __name__ == "__main__":
    sys.exit(main())
