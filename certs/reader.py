"""
A replica's part in the certificates: serve what stands in the Secret, and write nothing.

The server looks at a folder, as it does for files made by hand; what stands in the Secret is written there. A
server must listen before the API server was ever reached, so the folder begins with a pair that nobody
trusts, and readiness waits for the shared one, which the controller makes. After that nothing that goes wrong
here takes a pair away: what is good goes on being served, and the log says what is wrong, once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from certs import authority, certificate, secret, state
from certs.authority import Files, Pair
from certs.keeper import LOOK_SECONDS, WAITING_SECONDS
from certs.secret import Found, Place
from numalign.kube.client import Api, ClusterError
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.logs import Log

START_DAYS = 1

NOBODY_MADE_IT = "numalign-controller has not made it yet"


def start_pair(folder: Path, *, names: Sequence[str], now: datetime) -> Files:
    """A pair for a server to listen with until the shared one is there; nobody trusts it.

    Raises `BadOrder` for names that cannot be certified, and `OSError`.
    """
    return authority.write(authority.issue(names=names, days=START_DAYS, now=now), folder)


def _nothing() -> None:
    """For a server that looks at the folder by itself often enough."""


@dataclass(slots=True)
class SharedCertificate:
    """Keeps `folder` holding the pair of a Secret, which has to be for `names` if somebody else made it.

    It looks `every` so many seconds, and so must the server look at the folder. `changed` is called when a
    new pair stands in the folder, so that a server need not wait for its look.
    """

    api: Api
    _: KW_ONLY
    namespace: str
    secret: str
    names: Sequence[str]
    folder: Path
    log: Log
    every: float = LOOK_SECONDS
    now: Clock = utc_now
    sleep: Sleep = asyncio.sleep
    changed: Callable[[], object] = _nothing
    _served: Pair | None = field(default=None, init=False)
    _awaited: str = field(default="it was not read yet", init=False)
    _said: dict[str, object] = field(default_factory=dict, init=False)

    @property
    def place(self) -> Place:
        """Where the pair stands."""
        return Place(self.namespace, self.secret)

    def trouble(self) -> str | None:
        """What is awaited before callers can trust what is served, for readiness; None once they can."""
        if self._served:
            return None
        return f"waiting for the certificate in {self.place}: {self._awaited}"

    async def run(self) -> None:
        """Look again and again; never returns, and no failure of the cluster or the disk ends it."""
        while True:
            await self.look()
            await self.sleep(self.every if self._served else min(self.every, WAITING_SECONDS))

    async def look(self) -> None:
        """Look once, and serve what is shared."""
        try:
            found = await secret.find(self.api, self.place)
            self._serve(secret.judged(found, names=self.names, now=self.now()))
            self._say("certificates.failing", None)
        except (ClusterError, OSError) as error:
            self._awaited = str(error)
            self._say("certificates.failing", self._awaited, error=self._awaited)

    def _serve(self, found: Found) -> None:
        """Write a new pair into the folder, unless no client would accept it now."""
        mistakes = found.mistakes
        if found.state:
            mistakes = state.untimely(found.state.current, now=self.now())
        self._awaited = "; ".join(map(str, mistakes)) or NOBODY_MADE_IT
        self._say("certificates.refused", mistakes, secret=str(found.place), mistakes=mistakes)
        if found.state and not mistakes and found.state.current != self._served:
            authority.write(found.state.current, self.folder)
            self._served = found.state.current
            self.changed()
            self._tell_served(self._served)

    def _tell_served(self, pair: Pair) -> None:
        shown = certificate.first(pair.cert_pem)
        self.log.info(
            "certificates.served",
            secret=str(self.place),
            serial=f"{shown.serial_number:x}",
            expires=shown.not_valid_after_utc,
        )

    def _say(self, event: str, about: object, **fields: object) -> None:
        """Say what is wrong, but the same only once; nothing, once it is right."""
        if about and self._said.get(event) != about:
            self.log.error(event, **fields)
        self._said[event] = about
