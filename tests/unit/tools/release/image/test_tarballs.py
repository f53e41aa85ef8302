"""The same files give the same archive, whoever wrote them and when."""

import io
import os
import tarfile
from pathlib import Path

from tools.release.image import tarballs


def members(tar: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        return opened.getmembers()


def tree(folder: Path) -> Path:
    """A file, a program, a link, and a folder that everybody may write to."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "program").write_text("run")
    (folder / "bin" / "program").chmod(0o700)
    (folder / "bin" / "link").symlink_to("/bin/program")
    (folder / "data").write_text("read")
    (folder / "data").chmod(0o600)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    return folder


def test_everything_is_sorted_and_of_root_and_of_one_time(tmp_path: Path) -> None:
    listed = members(tarballs.layer(tree(tmp_path / "root"), epoch=1_700_000_000))

    assert [each.name for each in listed] == ["bin", "bin/link", "bin/program", "data", "tmp"]
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in listed} == {(0, 0, "", 1_700_000_000)}


def test_modes_are_those_that_matter_in_an_image(tmp_path: Path) -> None:
    listed = members(tarballs.layer(tree(tmp_path / "root"), epoch=0))

    assert {each.name: oct(each.mode) for each in listed if not each.issym()} == {
        "bin": "0o755",
        "bin/program": "0o755",
        "data": "0o644",
        "tmp": "0o1777",
    }
    [link] = [each for each in listed if each.issym()]
    assert link.linkname == "/bin/program"


def test_the_order_and_the_time_of_writing_do_not_show(tmp_path: Path) -> None:
    first = tree(tmp_path / "first")
    second = tmp_path / "second"
    second.mkdir()
    (second / "tmp").mkdir()
    (second / "tmp").chmod(0o1777)
    (second / "data").write_text("read")
    (second / "bin").mkdir()
    (second / "bin" / "link").symlink_to("/bin/program")
    (second / "bin" / "program").write_text("run")
    (second / "bin" / "program").chmod(0o755)
    os.utime(second / "data", (1, 1))

    assert tarballs.layer(first, epoch=7) == tarballs.layer(second, epoch=7)


def test_an_archive_keeps_the_order_that_it_is_given() -> None:
    listed = members(tarballs.archive([("b", b"second"), ("a", b"")], epoch=9))

    assert [(each.name, each.size, each.mtime) for each in listed] == [("b", 6, 9), ("a", 0, 9)]
