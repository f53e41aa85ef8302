"""What the tests of a process share: a log that can be read, and certificates."""

import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from prometheus_client import CollectorRegistry

from numalign.runtime.tls import PairFiles
from tests.worlds.http_sites import Door, HttpSite
from tests.worlds.log import RecordedLog
from tools.clusters.certificates import certificate, key_pem


@pytest.fixture
def journal() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def site(journal: RecordedLog, registry: CollectorRegistry) -> HttpSite:
    return HttpSite(journal, registry, Door())


@dataclass(frozen=True)
class Mint:
    """Makes serving pairs that vouch for themselves: the certificate is its own authority."""

    folder: Path
    rsa_key: rsa.RSAPrivateKey

    def pair(
        self, kind: str = "ec", *, since: datetime | None = None, until: datetime | None = None
    ) -> PairFiles:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        pair = PairFiles(folder / "tls.crt", folder / "tls.key")
        key = self.key(kind)
        now = datetime.now(UTC)
        since, until = since or now - timedelta(days=1), until or now + timedelta(days=1)
        pair.cert.write_bytes(certificate(key, since=since, until=until))
        pair.key.write_bytes(key_pem(key))
        return pair

    def key(self, kind: str) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
        if kind == "weak":
            return rsa.generate_private_key(65537, 1024)  # noqa: S505 it is to be refused
        return self.rsa_key if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())

    @staticmethod
    def renew(old: PairFiles, new: PairFiles) -> None:
        for source, target in ((new.cert, old.cert), (new.key, old.key)):
            temporary = target.with_suffix(".new")
            temporary.write_bytes(source.read_bytes())
            temporary.replace(target)


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def mint(tmp_path: Path, rsa_key: rsa.RSAPrivateKey) -> Mint:
    return Mint(tmp_path, rsa_key)


@pytest.fixture
def trusting() -> Callable[..., ssl.SSLContext]:
    def trust(*certificates: Path) -> ssl.SSLContext:
        bundle = "".join(path.read_text() for path in certificates)
        return ssl.create_default_context(cadata=bundle)

    return trust
