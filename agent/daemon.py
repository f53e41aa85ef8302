"""
The daemon: an observer, a publisher and what wakes them, put together from checked options.

It is run as `python -m agent.daemon DESCRIPTOR` by the first stage, and imports nothing that a node would
have to hold in memory for no use: a test holds what is imported against a list.
"""

import asyncio
import signal
import sys
from pathlib import Path

from agent import options
from agent.api_server import ApiServer, token_of
from agent.health import Health, listening
from agent.https import HttpsClient, HttpsEndpoint, Unverified, Verified
from agent.kubelet_api import KubeletApi
from agent.metrics import AgentMetrics
from agent.observer import NodePaths, Observer
from agent.options import AgentOptions
from agent.pod_records import PodRecords
from agent.printer import Printer
from agent.publisher import Publisher
from agent.report import NodeReport
from agent.rounds import Intervals, ReportPublisher, Rounds
from agent.wakeups import Wakeups, watched
from numalign.kube.access import Access
from numalign.kube.errors import Unconfigured
from numalign.runtime import metrics
from numalign.runtime.logs import Log, adopt_libraries, to

PROGRAM = "numalign-agent"


def main() -> int:
    """Run with the options in an open file until told to stop; the exit code of the program."""
    told = options.take_over(int(sys.argv[1]))
    log = to(sys.stderr, level=told.log_level, form=told.log_format)
    adopt_libraries(log)
    return asyncio.run(run(told, log))


async def run(told: AgentOptions, log: Log) -> int:
    """As `main`, with a log."""
    daemon = Daemon(told, log)
    return await (daemon.once() if told.once else daemon.serve())


class Daemon:
    """One agent."""

    def __init__(self, told: AgentOptions, log: Log) -> None:
        self._told = told
        self._log = log
        self._registry = metrics.registry(program=PROGRAM)
        self._metrics = AgentMetrics(self._registry)
        self._api = ApiServer(told.access) if told.access else None
        self._records = self._pod_records()
        self._rounds = Rounds(
            observer(told, self._api, log),
            self._publisher(),
            Wakeups(watched(told.kubelet_state, told.podresources_socket)),
            Intervals(told.resync_seconds, told.heartbeat_seconds),
            log=log,
            metrics=self._metrics,
            observed=self._observed,
        )

    async def once(self) -> int:
        """Look and publish; 1, if that failed."""
        return 0 if await self._rounds.round() else 1

    async def serve(self) -> int:
        """Go round until told to stop, and tell of it; 1 if something broke, 2 if nothing could start."""
        health = Health(self._registry, lambda: self._rounds.waiting_for)
        try:
            async with listening(health, self._told.bind, self._told.metrics_port) as port:
                self._log.info("server.listening", bind=self._told.bind, metrics_port=port)
                return await self._until_told()
        except OSError as error:
            place = f"--bind {self._told.bind} --metrics-port {self._told.metrics_port}"
            self._log.error("server.start_failed", errors=[f"{place}: cannot listen: {error}"])
            return 2

    async def _until_told(self) -> int:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        work = [self._rounds.run(), *([self._records.run()] if self._records else [])]
        tasks = [asyncio.create_task(each) for each in (*work, _waited(stopped))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in tasks if task.done() and (error := task.exception())]
        for error in errors:
            self._log.failed("task.failed", error)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._log.info("server.stopped", failed_tasks=[type(error).__name__ for error in errors])
        return 1 if errors else 0

    def _publisher(self) -> ReportPublisher:
        told = self._told
        if told.output is not None:
            return Printer(told.node_name, told.output)
        return Publisher(self._needed(), told.node_name, told.publish, log=self._log, metrics=self._metrics)

    def _pod_records(self) -> PodRecords | None:
        if not self._told.annotate_pods or self._told.access is None:
            return None
        # A connection of its own: a hundred pods shall not hold up the topology.
        return PodRecords(ApiServer(self._told.access), log=self._log, metrics=self._metrics)

    def _observed(self, report: NodeReport) -> None:
        if self._records:
            self._records.keep(report.pods)

    def _needed(self) -> ApiServer:
        if self._api is None:
            raise Unconfigured("there is no API server to write to: set --kubeconfig or --output")
        return self._api


async def _waited(event: asyncio.Event) -> None:
    await event.wait()


def observer(told: AgentOptions, api: ApiServer | None, log: Log) -> Observer:
    """What looks at the node, as the options say."""
    state = told.kubelet_state if told.kubelet_state.is_dir() else None
    kubelet = KubeletApi(told.node_name, direct=_direct(told), api=api, file=told.kubelet_config)
    return Observer(NodePaths(told.podresources_socket, told.sysfs, state), kubelet, log=log)


def _direct(told: AgentOptions) -> HttpsClient | None:
    """The kubelet's own port, asked as whoever asks the API server."""
    if told.node_address is None:
        return None
    shown = told.access or Access("")
    certificate, key = (Path(path) if path else None for path in (shown.certificate, shown.key))
    # A kubelet mostly signs its own certificate, and nobody else answers at a port of this node.
    tls = Verified(told.kubelet_ca, certificate, key) if told.kubelet_ca else Unverified(certificate, key)
    return HttpsClient(HttpsEndpoint(told.node_address, told.kubelet_port, tls, token_of(shown)))


if __name__ == "__main__":
    sys.exit(main())
