"""Archives hold what they are given, and nothing of the moment and the machine."""

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.release.tar_files import READABLE, RUNNABLE, Member, read, unpack, write

PROGRAM = Member("program", b"#!/bin/sh\n", RUNNABLE)
TEXT = Member("folder/LICENSE", b"Apache\n")

members = st.lists(
    st.builds(
        Member,
        st.from_regex(r"[a-z]{1,20}(/[a-z]{1,20}){0,3}", fullmatch=True),
        st.binary(max_size=2000),
        st.sampled_from([READABLE, RUNNABLE]),
    ),
    max_size=5,
)


@given(members, st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path: Path, given_members: list[Member], epoch: int) -> None:
    archive = tmp_path / "some.tar.gz"
    write(archive, given_members, epoch=epoch)
    assert read(archive) == given_members


def test_bytes_depend_on_neither_name_nor_umask(tmp_path: Path) -> None:
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    write(first, [PROGRAM, TEXT], epoch=1)
    before = os.umask(0o077)
    try:
        write(second, [PROGRAM, TEXT], epoch=1)
    finally:
        os.umask(before)
    assert first.read_bytes() == second.read_bytes()


def test_files_are_of_root_and_of_the_time_that_is_given(tmp_path: Path) -> None:
    archive = tmp_path / "some.tar.gz"
    write(archive, [PROGRAM], epoch=86400)
    with tarfile.open(archive) as files:
        [head] = files
    assert (head.uid, head.gid, head.uname, head.mtime, head.mode) == (0, 0, "", 86400, 0o755)


# Python 3.12 and 3.13 warn where no filter is set, which is what this test pretends.
@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
def test_members_are_unpacked_with_their_modes_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "some.tar.gz"
    write(archive, [PROGRAM, TEXT], epoch=1)
    # As before 3.11.4.
    monkeypatch.delattr(tarfile, "tar_filter", raising=False)
    with tarfile.open(archive) as files:
        unpack(files, tmp_path / "all")
        unpack(files, tmp_path / "one", [files.getmember("folder/LICENSE")])

    assert (tmp_path / "all/program").stat().st_mode & 0o777 == RUNNABLE
    assert [path.name for path in (tmp_path / "one/folder").iterdir()] == ["LICENSE"]


def test_what_is_no_archive_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(tarfile.ReadError):
        read(tmp_path / "text")
