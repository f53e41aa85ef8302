"""Namespaces in which numalign denies workloads, beside those in which it warns."""

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.stages import Stage
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import ask

DENIES = {"denies": "workloads"}
IMPOSSIBLE = 1000
"""CPUs that no node has in any zone."""


@dataclass(frozen=True, slots=True)
class Denying:
    stage: Stage

    async def begin(self, home: str) -> None:
        """Have workloads denied in a namespace from now on."""
        await self.stage.store.apply(namespace(home, DENIES))
        wish = workloads.template("rehearsal", on={}, cpus=IMPOSSIBLE, restart="Never")
        path = f"/apis/batch/v1/namespaces/{home}/jobs"
        job = workloads.job(home, "rehearsal", 1, wish, backoff=0)
        await eventually(
            partial(ask, self.stage.api, "POST", path, job, dryRun="All"),
            lambda answer: answer.code == HTTPStatus.FORBIDDEN,
            f"an impossible Job was denied in {home}",
        )
