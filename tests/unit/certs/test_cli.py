"""The program as users run it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from errno import ENOTDIR
from http import HTTPStatus
from os import strerror
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from certs import authority
from certs import secret as secrets
from certs.cli import program
from certs.secret import PairState
from tests.unit.certs.conftest import Site
from tests.worlds.notation import table
from tests.worlds.pairs import MUTATING, NAMES, PLACE, VALIDATING, configuration, files, pair

Run = Callable[..., Awaitable[Result]]
OF_SECRET = ("--secret", PLACE.name, "-n", PLACE.namespace)


def fresh(*, days: int = 30) -> authority.Pair:
    return pair(days=days, now=datetime.now(UTC))


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(program, [*map(str, arguments)])


@pytest.fixture
def command(site: Site, tmp_path: Path) -> Run:
    """Runs the program with the kubeconfig of the test's API server."""
    kubeconfig = site.api.kubeconfig(tmp_path / "kubeconfig", namespace=PLACE.namespace)

    async def made(*arguments: str) -> Result:
        return await asyncio.to_thread(run, *arguments, "--kubeconfig", str(kubeconfig))

    return made


def test_help_lists_every_command() -> None:
    assert [name in run("--help").output for name in ("inspect", "issue", "rotate")] == [True] * 3
    assert run("--version").output.startswith("numalign-certs, version ")
    assert all(run(name, "-h").exit_code == 0 for name in program.commands)


def test_issued_files_are_a_good_pair(tmp_path: Path) -> None:
    issued = run("issue", "--name", NAMES[0], "--name", "::1", "--days", "3", "--out", tmp_path / "new")
    inspected = run("inspect", tmp_path / "new")

    assert (issued.exit_code, inspected.exit_code) == (0, 0)
    assert [line.rpartition("/")[2] for line in issued.output.splitlines()] == [
        "tls.crt  (--tls-cert)",
        "tls.key  (--tls-key)",
        "ca.crt  (CA for callers)",
    ]
    assert f"names        {NAMES[0]}, ::1" in inspected.output


def test_pair_is_overwritten_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text("precious")
    refused = run("issue", "--name", "a", "--out", tmp_path)

    assert refused.exit_code == 2
    assert "already contains tls.key: use another folder, or --overwrite" in refused.output
    assert (tmp_path / "tls.key").read_text() == "precious"
    assert run("issue", "--name", "a", "--out", tmp_path, "--overwrite").exit_code == 0


def test_bad_order_prints_every_mistake(tmp_path: Path) -> None:
    refused = run("issue", "--name", "_", "--name", "-", "--days", "0", "--out", tmp_path / "new")

    assert refused.exit_code == 2
    assert refused.output.splitlines() == [
        "Error: names: '_' is neither a DNS name nor an IP address",
        "names: '-' is neither a DNS name nor an IP address",
        "days: 0 is not from 1 to 3650",
    ]
    assert not (tmp_path / "new").exists()


def test_folder_that_cannot_be_written_has_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("issue", "--name", "a", "--out", tmp_path / "file" / "new")

    assert (refused.exit_code, refused.output) == (2, f"Error: {tmp_path}/file/new: {strerror(ENOTDIR)}\n")


def test_file_is_inspected_as_json(tmp_path: Path) -> None:
    made = authority.write(fresh(), tmp_path)
    shown = run("inspect", made.cert, "-o", "json")
    (first,) = json.loads(shown.stdout)["certificates"]

    assert (shown.exit_code, first["names"]) == (0, list(NAMES))
    assert 29 * 86400 < first["secondsLeft"] <= 30 * 86400


def expired(folder: Path) -> None:
    authority.write(pair(days=1, now=datetime.now(UTC) - timedelta(days=2)), folder)


def mismatched(folder: Path) -> None:
    authority.write(fresh(), folder)
    (folder / "tls.key").write_bytes(fresh().key_pem)


def cut_off(folder: Path) -> None:
    authority.write(fresh(), folder)
    (folder / "tls.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\nMII")
    (folder / "ca.crt").unlink()


BAD: list[tuple[str, Callable[[Path], None], list[str]]] = [
    ("expired", expired, ["served: expired at "]),
    ("a key of another certificate", mismatched, ["tls.key: does not match the certificate in tls.crt"]),
    ("cut off", cut_off, ["ca.crt: is missing", "tls.crt: contains no PEM certificate"]),
]


@pytest.mark.parametrize(("spoil", "errors"), table(BAD))
def test_bad_pair_has_exit_code_1(tmp_path: Path, spoil: Callable[[Path], None], errors: list[str]) -> None:
    spoil(tmp_path)
    shown = run("inspect", tmp_path)
    programs = run("inspect", tmp_path, "-o", "json")
    wrong = [line.removeprefix("error: ") for line in shown.stderr.splitlines()]

    assert (shown.exit_code, programs.exit_code) == (1, 1)
    assert [line.startswith(text) for line, text in zip(wrong, errors, strict=True)] == [True] * len(errors)
    assert json.loads(programs.stdout)["mistakes"] == wrong


IMPOSSIBLE: list[tuple[str, list[str], str]] = [
    ("a missing path", ["gone"], "gone"),
    ("an empty folder", ["empty"], "contains none of tls.crt, tls.key, ca.crt"),
    ("a file without a certificate", ["text"], "text contains no PEM certificate"),
    ("nothing", [], "specify either PATH or --secret NAME"),
    ("a path and a secret", ["empty", "--secret=x"], "specify either PATH or --secret NAME"),
]


@pytest.mark.parametrize(("arguments", "error"), table(IMPOSSIBLE))
def test_impossible_inspection_has_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no certificate")
    refused = run("inspect", *arguments)

    assert refused.exit_code == 2
    assert error in refused.stderr


async def test_secret_is_inspected_with_its_callers(site: Site, command: Run) -> None:
    served, following = fresh(), fresh()
    state = PairState(served, following)
    site.api.put(secrets.render(state, namespace=PLACE.namespace, name=PLACE.name))
    site.api.put(configuration(MUTATING, bundle=state.bundle))
    shown = await command("inspect", *OF_SECRET, "--configuration", "zz-numalign")

    assert shown.exit_code == 1
    assert "rotates " in shown.stdout
    assert f"{MUTATING}: trusts the certificate" in shown.stdout
    assert f"{VALIDATING}: the caBundle of 0.numalign.io does not contain" in shown.stderr
    site.api.put(configuration(VALIDATING, bundle=served.ca_pem))
    assert (await command("inspect", *OF_SECRET, "--configuration", "zz-numalign")).exit_code == 0


async def test_default_namespace_is_that_of_the_kubeconfig(site: Site, command: Run) -> None:
    site.store(files(fresh()), ours=False)
    shown = await command("inspect", "--secret", PLACE.name)

    assert (shown.exit_code, "rotates " in shown.stdout) == (0, False)


async def test_broken_empty_or_missing_secret_is_an_error(site: Site, command: Run) -> None:
    site.store({"tls.crt": b"x"})
    broken = await command("inspect", *OF_SECRET)
    site.store({})
    empty = await command("inspect", *OF_SECRET)
    site.api.delete(PLACE.path)
    missing = await command("inspect", *OF_SECRET)

    assert [each.exit_code for each in (broken, empty, missing)] == [1, 1, 2]
    assert "data[tls.key]: is missing" in broken.stderr
    assert empty.stderr == f"error: {PLACE}: is empty\n"
    assert missing.stderr == f"Error: {PLACE} does not exist\n"


async def test_forbidden_or_unreachable_cluster_is_an_error(site: Site, command: Run) -> None:
    site.api.failures[PLACE.path] = HTTPStatus.FORBIDDEN
    forbidden = await command("inspect", *OF_SECRET)
    await site.api.stop()
    gone = await command("rotate", *OF_SECRET)

    assert (forbidden.exit_code, gone.exit_code) == (2, 2)
    assert forbidden.stderr.startswith(f"Error: not allowed to read {PLACE}")
    assert "cannot be reached" in gone.stderr


async def test_rotation_is_followed_to_its_end(site: Site, command: Run) -> None:
    old = fresh()
    site.store(files(old))
    rotated = await command("rotate", *OF_SECRET, "--settle", "0")
    state = site.state()

    assert rotated.exit_code == 0, rotated.output
    steps = [line.partition(":")[0] for line in rotated.output.splitlines()]
    assert steps == ["staged", "promoted", "dropped"]
    assert state.current != old
    assert site.bundles(VALIDATING) == [state.current.ca_pem]


async def test_rotation_can_be_begun_without_waiting(site: Site, command: Run) -> None:
    old = fresh()
    site.store(files(old))
    begun = await command("rotate", *OF_SECRET, "--no-wait")
    state = site.state()

    assert (begun.exit_code, begun.output) == (0, "staged: the controller does the rest\n")
    assert (state.current, state.next is not None) == (old, True)


WRONG = [
    ("no such kubeconfig", ["rotate", *OF_SECRET, "--kubeconfig", "none"], "there is no kubeconfig"),
    ("a negative time", ["rotate", *OF_SECRET, "--settle", "-1"], "--settle"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error"), table(WRONG))
def test_wrong_option_has_exit_code_2(arguments: list[str], error: str) -> None:
    refused = run(*arguments)

    assert refused.exit_code == 2
    assert error in refused.stderr


def test_only_a_terminal_gets_colours(tmp_path: Path) -> None:
    authority.write(fresh(), tmp_path)
    plain = run("inspect", tmp_path).output
    coloured = CliRunner().invoke(program, ["inspect", str(tmp_path)], color=True).output

    assert plain == click.unstyle(coloured)
    assert plain != coloured
