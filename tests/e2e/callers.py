"""An API server that shows its webhooks a certificate, told so as docs/install.md says."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

GUIDE = Path(__file__).parents[2] / "docs" / "install.md"
ADMISSION, USERS = "AdmissionConfiguration", "Config"
THERE = "/etc/kubernetes/numalign"
SERVICE = "numalign-webhook.numalign-system.svc"


@dataclass(frozen=True, slots=True)
class Showing:
    """Files of an API server that shows a certificate; `authority` is what it is proven by."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Its own, as it vouches for itself."""
        return self.folder / "caller.crt"

    @property
    def flag(self) -> str:
        """What the API server is told."""
        return f"--admission-control-config-file={self.folder / 'admission.yaml'}"


def showing(folder: Path) -> Showing:
    """Write all that an API server needs, the configurations out of the guide."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "caller.key").write_bytes(pem)
    (folder / "caller.crt").write_bytes(_certificate(key))
    (folder / "admission.yaml").write_text(_shown(ADMISSION, folder))
    # Tests call webhooks at addresses, where nobody knows the port beforehand.
    (folder / "callers.yaml").write_text(_shown(USERS, folder).replace(SERVICE, '"*"'))
    return Showing(folder)


def _certificate(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _shown(kind: str, folder: Path) -> str:
    """The document of a kind that the guide shows, with the files where they are here."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    [found] = [block for block in blocks if re.search(rf"^kind: {kind}$", block, re.MULTILINE)]
    return str(found).replace(THERE, str(folder))
