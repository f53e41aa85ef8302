"""A Debian with nothing but what README says that a user has, and commands that are run in it."""

import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.clusters import debian

# Essential packages and apt, fewer than any installed Debian has: wheels of NumPy want libstdc++, which comes
# with apt.
PACKAGES = ("ca-certificates", "make", "python3", "python3-venv")
USER = 1000
HOME = Path("home/user")

# Run by sh in namespaces of its own: the root, the number of its user, and the user's script.
_ENTERING = """
cd "$1" && mount --rbind /dev dev && mount -t proc none proc || exit
mount -t sysfs -o ro none sys && mount -t tmpfs -o mode=1777 none tmp || exit
exec chroot . setpriv --reuid="$2" --regid="$2" --clear-groups --no-new-privs sh -euc "cd && $3"
"""
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_OF_THE_NETWORK = [
    each for name in ("http_proxy", "https_proxy", "no_proxy") for each in (name, name.upper())
]
_TRUSTED_BY_PIP = "PIP_CERT"


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system, with a user whose home is below it."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / HOME

    def give(self, file: Path) -> None:
        self._own(Path(shutil.copy(file, self.home)))

    def run(self, script: str, *, seconds: float) -> str:
        """What a script of the user prints; fails with it if the script does."""
        command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTERING, "sh")
        ended = subprocess.run(  # noqa: S603  words of ours, and a script of the repository's documents
            (*command, str(self.folder), str(USER), script),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}"
        return ended.stdout

    def install(self, program: Path, path: str) -> None:
        """Copy a program of this machine, or a folder of them, to a path of the root; it is the user's."""
        to = self.folder / path
        for missing in reversed([folder for folder in to.parents if not folder.exists()]):
            missing.mkdir()
            self._own(missing)
        if program.is_dir():
            shutil.copytree(program, to, symlinks=True)
        else:
            shutil.copy(program, to)
        for each in (to, *to.rglob("*")):
            self._own(each)

    def unpack(self, tar: Path) -> None:
        with tarfile.open(tar) as content:
            content.extractall(self.home, filter="data")
        for path in self.home.rglob("*"):
            self._own(path)

    def _own(self, path: Path) -> None:
        os.chown(path, USER, USER, follow_symlinks=False)

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _OF_THE_NETWORK if name in os.environ}
        if _TRUSTED_BY_PIP in os.environ:
            kept[_TRUSTED_BY_PIP] = str(_AUTHORITIES)
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"/{HOME}", "LANG": "C.UTF-8", **kept}


def made(folder: Path, suite: str) -> Root:
    """A fresh root in a folder, of a release of Debian; its packages are downloaded once."""
    with tarfile.open(debian.archive(suite, PACKAGES)) as content:
        content.extractall(folder, filter="fully_trusted")  # noqa: S202  devices and owners belong to it
    root = Root(folder)
    root.home.mkdir(parents=True)
    os.chown(root.home, USER, USER)
    # The network is this machine's, and so is whom it trusts.
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), _AUTHORITIES):
        shutil.copy(file, folder / file.relative_to("/"))
    return root
