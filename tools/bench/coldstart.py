"""
Measure how long a program takes from its start until it is ready in a large cluster, and its memory.

A separate process plays the API server, with objects as large as real ones: nodes with all their images, pods
with environment variables and managed fields. The times are from the program's start until `/readyz` answers
200, and until it has read the pods too, on which no answer of the webhook depends. Memory is what the kernel
counts, at the peak and after a pause.
"""

import asyncio
import sys
import time
from argparse import Namespace

from tools.bench import api_server
from tools.bench.site import at_site
from tools.bench.tables import Measurement, one_of, program, row
from tools.clusters.processes import until
from tools.clusters.programs import MIB, Site

LONGEST_START = 300
PODS_READ = 'numalign_watch_lists_total{kind="Pod"}'
READY_S, MOST_MIB = 20, 256
FLAGS = {"webhook": (), "controller": ("--gates", "true", "--heal", "true")}
"""Programs that follow pods, with the flags of all their features."""


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    one_of(chosen.program, FLAGS)
    api = await api_server.started(here, nodes=chosen.nodes, makes=chosen.makes, pods=chosen.pods)
    start = here.webhook if chosen.program == "webhook" else here.controller
    began = time.perf_counter()
    running = await start("--kubeconfig", str(api.kubeconfig), *FLAGS[chosen.program])
    ready = time.perf_counter() - began

    async def read() -> bool:
        return PODS_READ in await running.metrics()

    await until(read, what="the pods were read", child=running.child, seconds=LONGEST_START)
    counted = time.perf_counter() - began
    await asyncio.sleep(chosen.settling)
    memory = running.memory()
    rows = [
        row("from start to ready", ready, "s", most=READY_S),
        row("until the pods are read too", counted, "s"),
        row("resident at the peak", memory.most / MIB, "MiB", most=MOST_MIB),
        row("resident after a pause", memory.now / MIB, "MiB"),
    ]
    title = f"Start of the {chosen.program}: {chosen.nodes:,} nodes of 26 KB, {chosen.pods:,} pods"
    return [Measurement(title, rows, "A separate process plays the API server.")]


main = program(
    "coldstart",
    __doc__,
    at_site(measure),
    program=("webhook", "webhook", f"one of {', '.join(FLAGS)}"),
    nodes=(5000, 20, "nodes of the cluster"),
    makes=(36, 6, "makes of the nodes"),
    pods=(50_000, 40, "pods of the cluster"),
    settling=(5.0, 0.0, "seconds to pause before the memory is measured"),
)

if __name__ == "__main__":
    sys.exit(main(None))
