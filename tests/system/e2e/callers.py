"""An API server that shows its webhooks a certificate, configured as in docs/how-to/certificates.md."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.docs.guides import EXAMPLES, Guide
from tools.clusters.certificates import certificate, key_pem

GUIDE = Guide.read("certificates")
ADMISSION, USERS = "AdmissionConfiguration", "Config"
THERE = "/etc/kubernetes/numalign"
SERVICE = "numalign-webhook.numalign-system.svc"


@dataclass(frozen=True, slots=True)
class Showing:
    """Files of an API server that shows a certificate; `authority` is what it is proven by."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "caller.crt"

    @property
    def flag(self) -> str:
        return f"--admission-control-config-file={self.folder / 'admission.yaml'}"


def showing(folder: Path) -> Showing:
    """Write all that an API server needs, the configurations out of the guide."""
    key = ec.generate_private_key(ec.SECP256R1())
    now, day = datetime.now(UTC), timedelta(days=1)
    (folder / "caller.key").write_bytes(key_pem(key))
    (folder / "caller.crt").write_bytes(certificate(key, since=now - day, until=now + day))
    (folder / "admission.yaml").write_text(_shown(ADMISSION, folder))
    # Tests call webhooks at addresses, where nobody knows the port beforehand.
    (folder / "callers.yaml").write_text(_shown(USERS, folder).replace(SERVICE, '"*"'))
    return Showing(folder)


def _shown(kind: str, folder: Path) -> str:
    """The document of a kind that the guide shows, with the files where they are here."""
    blocks = [fence.text for fence in GUIDE.fences() if fence.language == EXAMPLES]
    [shown] = [block for block in blocks if re.search(rf"^kind: {kind}$", block, re.MULTILINE)]
    return shown.replace(THERE, str(folder))
