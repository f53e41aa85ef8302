"""
The webhook: a server that answers reviews from what is known of a cluster or a file.

With an API server it also reads the certificate that all replicas share. It writes nothing to the cluster:
only the controller does.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import Counter

from certs.reader import SharedCertificate, start_pair
from numalign.kube import live_feed
from numalign.kube.cluster import Cluster
from numalign.kube.compose import ClusterProgram
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.kinds import Object
from numalign.kube.late_namespaces import LateNamespaces
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import server
from numalign.runtime.clock import utc_now
from numalign.runtime.line_writer import line_writer
from numalign.runtime.metrics import PREFIX
from numalign.runtime.server import Stop
from numalign.runtime.server_state import SERVER_STATE
from numalign.scheduling.recent_refusals import RecentRefusals
from webhook.handlers import PODS_BELOW, application
from webhook.known_cluster import KnownCluster
from webhook.mutate import Avoidance
from webhook.quota import RecentlyAdmitted
from webhook.refusal_audit import RefusalAudit
from webhook.settings import WebhookSettings


@dataclass(frozen=True, slots=True)
class WebhookProgram(ClusterProgram[WebhookSettings]):
    """The webhook with these settings; `settled` is called once, when it knows the cluster."""

    settled: Callable[[], object] = lambda: None

    async def serve(self, stop: Stop) -> int:
        """Serve until stopped; before that, raise `BadPolicy`, `BadInput` and `ClusterError`."""
        settings, log, registry = self.settings, self.log, self.registry
        policy, reader = self.policy(), PodReader(settings.policy_match)
        avoidance = Avoidance(RecentRefusals(clock=time.monotonic, wall=time.time), reader)
        watched = live_feed.WITH_PODS if settings.count_pods else live_feed.STATIC
        recent, cluster = RecentlyAdmitted(time.monotonic), Cluster()

        def see(pod: Object, *, counted: bool) -> None:
            avoidance.update_pod(pod, counted=counted)
            recent.forget((pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))

        async with self.source(policy, cluster, watched=watched, reader=reader, see=see) as source:
            known = KnownCluster(cluster, source.feed, log=log, registry=registry, settled=self.settled)
            await source.load()
            with ExitStack() as stack:
                folder = stack.enter_context(_folder()) if source.api else None
                audit = None
                if (target := settings.audit_log) is not None:
                    lines = Counter(
                        f"{PREFIX}audit_lines",
                        "Audit lines of denied reviews, by result.",
                        ["result"],
                        registry=registry,
                    )
                    writer = line_writer(target, flag="--audit-log", lines=lines, log=log)
                    audit = RefusalAudit(stack.enter_context(writer).write, utc_now)
                app = application(
                    settings,
                    known=known,
                    policy=policy,
                    avoidance=avoidance,
                    log=log,
                    registry=registry,
                    audit=audit,
                    late_namespaces=LateNamespaces(source.api, time.monotonic) if source.api else None,
                    recent=recent,
                )
                tasks = {"snapshot": source.feed.follow, "levels": app[PODS_BELOW].follow, **source.tasks}
                if source.api and folder and settings.tls_secret:
                    namespace = self.namespace(source.api)
                    names = settings.names_in(namespace)
                    start_pair(folder, names=names, now=utc_now())
                    certificate = SharedCertificate(
                        source.api,
                        namespace=namespace,
                        secret=settings.tls_secret,
                        names=names,
                        folder=folder,
                        log=log,
                        changed=partial(server.renew, app),
                    )
                    tasks["certificates"] = certificate.run
                    app[SERVER_STATE].checks["certificates"] = certificate.waiting_for
                    pair = {"tls_cert": folder / "tls.crt", "tls_key": folder / "tls.key"}
                    settings = settings.model_copy(update=pair)
                return await server.serve(app, settings, stop=stop, tasks=tasks, tracer=self.tracer)


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a directory for as long as the program runs; raise `BadInput` if it cannot be created."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="numalign-")
    except OSError as error:
        place = f"the directory for temporary files, {tempfile.gettempdir()}"
        raise BadInput([Mistake(place, f"cannot be written: {error.strerror}")]) from error
    with folder as path:
        yield Path(path)
