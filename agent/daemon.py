"""
The daemon: an observer, a publisher and their triggers, built from checked options.

The first stage runs it as `python -m agent.daemon DESCRIPTOR`. It imports nothing that would take memory on
each node without need: a test compares its imports with a list.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace

from prometheus_client import CollectorRegistry

from agent import options
from agent.health import Health, listening
from agent.https import ApiServer, HttpsClient
from agent.kubelet_api import KubeletApi
from agent.metrics import AgentMetrics
from agent.observer import NodePaths, Observer
from agent.options import AgentOptions
from agent.publisher import PodRecords, Printer, Publisher
from agent.report import NodeReport
from agent.rounds import ReportPublisher, Rounds, Wakeups
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
    """Run as the options say; return 1 if a round or a task failed, 2 if nothing can listen."""
    counted = AgentMetrics(registry)
    api = ApiServer(given.access) if given.access else None
    records = None
    if given.access and given.annotate_pods:
        # A separate connection: a hundred pods must not delay the topology.
        records = PodRecords(ApiServer(given.access), log=log, metrics=counted)

    def observed(report: NodeReport) -> None:
        if records:
            records.keep(report.pods)

    if given.output is not None:
        publisher: ReportPublisher = Printer(given.node_name, given.output)
    elif api is None:
        raise Unconfigured("there is no API server to write to: set --kubeconfig or --output")
    else:
        publisher = Publisher(api, given.node_name, given.publish, log=log, metrics=counted)
    rounds = Rounds(
        observer(given, api, log).observe,
        publisher,
        Wakeups(given.kubelet_state, given.podresources_socket),
        resync=given.resync_seconds,
        heartbeat=given.heartbeat_seconds,
        log=log,
        metrics=counted,
        observed=observed,
    )
    if given.once:
        return 0 if await rounds.round() else 1
    health = Health(metrics.MetricsPage(registry), lambda: rounds.waiting_for)
    try:
        async with listening(health, given.bind, given.metrics_port) as port:
            log.info("server.listening", bind=given.bind, metrics_port=port)
            return await _until_stopped([rounds.run(), *([records.run()] if records else [])], log)
    except OSError as error:
        place = f"--bind {given.bind} --metrics-port {given.metrics_port}"
        log.error("server.start_failed", errors=[f"{place}: cannot listen: {error}"])  # noqa: TRY400  expected
        return 2


def observer(given: AgentOptions, api: ApiServer | None, log: Log) -> Observer:
    """Return the observer that the options describe."""
    direct = None
    if given.node_address is not None:
        # The kubelet's own port, with the credentials for the API server. Most kubelets sign their own
        # certificates, and nothing else answers at a port of this node.
        address = given.node_address.strip("[]")
        host = f"[{address}]" if ":" in address else address
        authority = str(given.kubelet_ca) if given.kubelet_ca else None
        direct = HttpsClient(
            replace(
                given.access or Access(""),
                host=f"https://{host}:{given.kubelet_port}",
                authority=authority,
                verify=authority is not None,
            )
        )
    state = given.kubelet_state if given.kubelet_state.is_dir() else None
    kubelet = KubeletApi(given.node_name, direct=direct, api=api, file=given.kubelet_config)
    return Observer(NodePaths(given.podresources_socket, given.sysfs, state), kubelet, log=log)


async def _until_stopped(work: list[Coroutine[object, object, object]], log: Log) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    tasks = [asyncio.create_task(coroutine) for coroutine in (*work, stopped.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    errors = [error for task in tasks if task.done() and (error := task.exception())]
    for error in errors:
        log.failed("task.failed", error)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    log.info("server.stopped", failed_tasks=[type(error).__name__ for error in errors])
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
