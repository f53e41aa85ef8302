"""
A webhook replica's part in the certificates: serve the pair in the Secret, and write nothing.

The server watches a directory, as it does for files created by hand; the pair in the Secret is written there.
A server must listen before it has connected to the API server, so the directory first has a pair that no
caller trusts, and readiness waits for the shared one, which the controller creates. After that no failure
here removes a pair: a valid pair continues to be served, and each failure is logged once.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from certs import authority, certificate, secret
from certs.authority import Files, Pair
from certs.watcher import SecretWatcher


def start_pair(folder: Path, *, names: Sequence[str], now: datetime) -> Files:
    """Write a pair that no caller trusts, to listen with at first; raise `BadOrder`, and `OSError`."""
    return authority.write(authority.issue(names=names, days=1, now=now), folder)


@dataclass(slots=True)
class SharedCertificate(SecretWatcher):
    """
    Keeps the pair of a Secret in `folder`; one that numalign did not create has to be valid for `names`.

    The server must read the directory as often. `changed` is called when a new pair is in the directory, so
    that a server can read it at once.
    """

    _: KW_ONLY
    folder: Path
    changed: Callable[[], object] = lambda: None
    _served: Pair | None = field(default=None, init=False)

    async def _check(self) -> None:
        """Write a new pair into the directory, unless no client would accept it now."""
        shared = await secret.read_for(self.api, self.ref, names=self.names, now=self.now())
        mistakes = shared.mistakes
        if shared.state:
            mistakes = secret.untimely(shared.state.current, now=self.now())
        self._awaited = "; ".join(map(str, mistakes)) or "numalign-controller has not created it yet"
        self._report("certificates.refused", mistakes, secret=str(self.ref), errors=mistakes)
        if not shared.state or mistakes or shared.state.current == self._served:
            return
        pair = shared.state.current
        authority.write(pair, self.folder)
        self._served, self.ready = pair, True
        self.changed()
        served = certificate.first(pair.cert_pem)
        self.log.info(
            "certificates.served",
            secret=str(self.ref),
            serial=f"{served.serial_number:x}",
            expires=served.not_valid_after_utc,
        )
