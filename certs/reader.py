"""
A replica's part in the certificates: serve what stands in the Secret, and write nothing.

The server looks at a folder, as it does for files made by hand; what stands in the Secret is written there. A
server must listen before the API server was ever reached, so the folder begins with a pair that nobody
trusts, and readiness waits for the shared one, which the controller makes. After that nothing that goes wrong
here takes a pair away: what is good goes on being served, and the log says what is wrong, once.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from certs import authority, certificate, secret
from certs.authority import Files, Pair
from certs.watcher import SecretWatcher

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
class SharedCertificate(SecretWatcher):
    """Keeps `folder` holding the pair of a Secret, which has to be for `names` if somebody else made it.

    The server must look at the folder as often. `changed` is called when a new pair stands in the folder, so
    that a server need not wait for its look.
    """

    _: KW_ONLY
    folder: Path
    changed: Callable[[], object] = _nothing
    _served: Pair | None = field(default=None, init=False)

    @property
    def ready(self) -> bool:
        """Whether a pair is served that callers can trust."""
        return self._served is not None

    async def _look(self) -> None:
        """Write a new pair into the folder, unless no client would accept it now."""
        shared = await secret.read_for(self.api, self.ref, names=self.names, now=self.now())
        mistakes = shared.mistakes
        if shared.state:
            mistakes = secret.untimely(shared.state.current, now=self.now())
        self._awaited = "; ".join(map(str, mistakes)) or NOBODY_MADE_IT
        self._report("certificates.refused", mistakes, secret=str(self.ref), mistakes=mistakes)
        if shared.state and not mistakes and shared.state.current != self._served:
            self._serve(shared.state.current)

    def _serve(self, pair: Pair) -> None:
        authority.write(pair, self.folder)
        self._served = pair
        self.changed()
        served = certificate.first(pair.cert_pem)
        self.log.info(
            "certificates.served",
            secret=str(self.ref),
            serial=f"{served.serial_number:x}",
            expires=served.not_valid_after_utc,
        )
