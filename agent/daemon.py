"""
The daemon: an observer, a publisher and their triggers, built from checked options.

The first stage runs it as `python -m agent.daemon DESCRIPTOR`. It imports nothing that would take memory on
each node without need: a test compares its imports with a list.
"""

import asyncio
import signal
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

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
from numalign.runtime.line_writer import standard_error
from numalign.runtime.logs import Log, adopt_libraries, by_lines

PROGRAM = "numalign-agent"


def main() -> int:
    """Run with the options in an open file until stopped; return the exit code."""
    given = options.take_over(int(sys.argv[1]))
    registry = metrics.registry(program=PROGRAM)
    with standard_error(registry) as writer:
        log = by_lines(writer.write, level=given.log_level, form=given.log_format)
        adopt_libraries(log)
        return asyncio.run(run(given, log, registry))


async def run(given: AgentOptions, log: Log, registry: CollectorRegistry) -> int:
    """Do as `main` does, with a log and a registry."""
    daemon = Daemon(given, log, registry)
    return await (daemon.once() if given.once else daemon.serve())


class Daemon:
    """One agent."""

    def __init__(self, given: AgentOptions, log: Log, registry: CollectorRegistry) -> None:
        self._options = given
        self._log = log
        self._registry = registry
        self._metrics = AgentMetrics(self._registry)
        self._api = ApiServer(given.access) if given.access else None
        self._records = self._pod_records()
        self._rounds = Rounds(
            observer(given, self._api, log),
            self._publisher(),
            Wakeups(watched(given.kubelet_state, given.podresources_socket)),
            Intervals(given.resync_seconds, given.heartbeat_seconds),
            log=log,
            metrics=self._metrics,
            observed=self._observed,
        )

    async def once(self) -> int:
        """Observe and publish once; return 1 if that failed."""
        return 0 if await self._rounds.round() else 1

    async def serve(self) -> int:
        """Run until stopped, with health and metrics; return 1 if a task failed, 2 if it cannot listen."""
        health = Health(metrics.MetricsPage(self._registry), lambda: self._rounds.waiting_for)
        try:
            async with listening(health, self._options.bind, self._options.metrics_port) as port:
                self._log.info("server.listening", bind=self._options.bind, metrics_port=port)
                return await self._until_stopped()
        except OSError as error:
            place = f"--bind {self._options.bind} --metrics-port {self._options.metrics_port}"
            self._log.error("server.start_failed", errors=[f"{place}: cannot listen: {error}"])
            return 2

    async def _until_stopped(self) -> int:
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
        given = self._options
        if given.output is not None:
            return Printer(given.node_name, given.output)
        return Publisher(self._needed(), given.node_name, given.publish, log=self._log, metrics=self._metrics)

    def _pod_records(self) -> PodRecords | None:
        if not self._options.annotate_pods or self._options.access is None:
            return None
        # A separate connection: a hundred pods must not delay the topology.
        return PodRecords(ApiServer(self._options.access), log=self._log, metrics=self._metrics)

    def _observed(self, report: NodeReport) -> None:
        if self._records:
            self._records.keep(report.pods)

    def _needed(self) -> ApiServer:
        if self._api is None:
            raise Unconfigured("there is no API server to write to: set --kubeconfig or --output")
        return self._api


async def _waited(event: asyncio.Event) -> None:
    await event.wait()


def observer(given: AgentOptions, api: ApiServer | None, log: Log) -> Observer:
    """Return the observer that the options describe."""
    state = given.kubelet_state if given.kubelet_state.is_dir() else None
    kubelet = KubeletApi(given.node_name, direct=_direct(given), api=api, file=given.kubelet_config)
    return Observer(NodePaths(given.podresources_socket, given.sysfs, state), kubelet, log=log)


def _direct(given: AgentOptions) -> HttpsClient | None:
    """Return a client of the kubelet's own port with the credentials for the API server."""
    if given.node_address is None:
        return None
    shown = given.access or Access("")
    certificate, key = (Path(path) if path else None for path in (shown.certificate, shown.key))
    # Most kubelets sign their own certificates, and nothing else answers at a port of this node.
    tls = Verified(given.kubelet_ca, certificate, key) if given.kubelet_ca else Unverified(certificate, key)
    return HttpsClient(HttpsEndpoint(given.node_address, given.kubelet_port, tls, token_of(shown)))


if __name__ == "__main__":
    sys.exit(main())
