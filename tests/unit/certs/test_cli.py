"""The program as users run it."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from errno import ENOTDIR
from http import HTTPStatus
from os import strerror
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from certs import authority
from certs import secret as secrets
from certs.__main__ import main
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


def test_program_runs_under_its_own_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m certs", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert (ended.value.code, capsys.readouterr().out[:24]) == (0, "numalign-certs, version ")


def test_issued_files_are_a_good_pair(tmp_path: Path) -> None:
    issued = run("issue", "--name", NAMES[0], "--name", "::1", "--days", "3", "--out", tmp_path / "new")
    inspected = run("inspect", tmp_path / "new")

    assert (issued.exit_code, inspected.exit_code) == (0, 0)
    listed = [line.rpartition("/")[2] for line in issued.output.splitlines()]
    assert listed == ["tls.crt  (--tls-cert)", "tls.key  (--tls-key)", "ca.crt  (CA for callers)"]
    assert f"names        {NAMES[0]}, ::1" in inspected.output


def test_pair_is_overwritten_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text("precious")
    refused = run("issue", "--name", "a", "--out", tmp_path)

    assert refused.exit_code == 2
    assert "already contains tls.key: use another folder, or --overwrite" in refused.output
    assert (tmp_path / "tls.key").read_text() == "precious"
    assert run("issue", "--name", "a", "--out", tmp_path, "--overwrite").exit_code == 0


def test_impossible_order_or_rotation_has_exit_code_2(tmp_path: Path) -> None:
    refused = run("issue", "--name", "_", "--name", "-", "--days", "0", "--out", tmp_path / "new")

    mistakes = [line.partition(": ")[0] for line in refused.output.splitlines()]
    assert (refused.exit_code, mistakes) == (2, ["Error", "names", "days"])
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    refused = run("issue", "--name", "a", "--out", tmp_path / "file" / "new")
    assert (refused.exit_code, refused.output) == (2, f"Error: {tmp_path}/file/new: {strerror(ENOTDIR)}\n")
    for flag, value, error in (
        ("kubeconfig", "none", "there is no kubeconfig"),
        ("settle", "-1", "--settle"),
    ):
        refused = run("rotate", *OF_SECRET, f"--{flag}", value)
        assert (refused.exit_code, error in refused.stderr) == (2, True)


def test_file_is_inspected_as_json(tmp_path: Path) -> None:
    made = authority.write(fresh(), tmp_path)
    shown = run("inspect", made.cert, "-o", "json")
    (first,) = json.loads(shown.stdout)["certificates"]

    assert (shown.exit_code, first["names"]) == (0, list(NAMES))
    assert 29 * 86400 < first["secondsLeft"] <= 30 * 86400


BAD: list[tuple[str, timedelta, bytes | None, list[str]]] = [
    ("expired", timedelta(days=30), None, ["served: expired at "]),
    ("two mistakes", timedelta(0), b"x", ["ca.crt: is missing", "tls.crt: contains no PEM certificate"]),
]


@pytest.mark.parametrize(("age", "cert", "errors"), table(BAD))
def test_bad_pair_has_exit_code_1(
    tmp_path: Path, age: timedelta, cert: bytes | None, errors: list[str]
) -> None:
    made = authority.write(pair(days=30, now=datetime.now(UTC) - age), tmp_path)
    if cert:
        made.cert.write_bytes(cert)
        made.ca.unlink()
    shown, programs = run("inspect", tmp_path), run("inspect", tmp_path, "-o", "json")
    wrong = [line.removeprefix("error: ") for line in shown.stderr.splitlines()]

    assert (shown.exit_code, programs.exit_code) == (1, 1)
    assert all(line.startswith(text) for line, text in zip(wrong, errors, strict=True))
    assert json.loads(programs.stdout)["mistakes"] == wrong


IMPOSSIBLE: list[tuple[str, list[str], str]] = [
    ("a missing path", ["gone"], "gone"),
    ("an empty folder", ["empty"], "contains none of tls.crt, tls.key, ca.crt"),
    ("nothing", [], "specify either PATH or --secret NAME"),
    ("a path and a secret", ["empty", "--secret=x"], "specify either PATH or --secret NAME"),
]


@pytest.mark.parametrize(("arguments", "error"), table(IMPOSSIBLE))
def test_impossible_inspection_has_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    refused = run("inspect", *arguments)

    assert (refused.exit_code, error in refused.stderr) == (2, True)


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


Spoil = Callable[[Site], Any]
UNREADABLE: list[tuple[str, Spoil, int, str]] = [
    ("broken", lambda site: site.store({"tls.crt": b"x"}), 1, "data[tls.key]: is missing"),
    ("empty", lambda site: site.store({}), 1, f"error: {PLACE}: is empty\n"),
    ("behind an unreachable server", lambda site: site.api.stop(), 2, "cannot be reached"),
    ("missing", lambda _: None, 2, f"Error: {PLACE} does not exist\n"),
    ("forbidden", lambda site: site.api.failures.update({PLACE.path: HTTPStatus.FORBIDDEN}), 2,
     f"Error: not allowed to read {PLACE}"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "code", "error"), table(UNREADABLE))
async def test_secret_is_an_error_that_is(
    site: Site, command: Run, spoil: Spoil, code: int, error: str
) -> None:
    if isinstance(stopped := spoil(site), Coroutine):
        await stopped
    shown = await command("inspect", *OF_SECRET)

    assert (shown.exit_code, error in shown.stderr) == (code, True)


async def test_rotation_is_followed_to_its_end_or_only_begun(site: Site, command: Run) -> None:
    old = fresh()
    site.store(files(old))
    begun = await command("rotate", *OF_SECRET, "--no-wait")
    assert (begun.exit_code, begun.output) == (0, "staged: the controller does the rest\n")
    assert (site.state().current, site.state().next is not None) == (old, True)
    rotated = await command("rotate", *OF_SECRET, "--settle", "0")
    state = site.state()

    steps = [line.partition(":")[0] for line in rotated.output.splitlines()]
    assert (rotated.exit_code, steps) == (0, ["staged", "promoted", "dropped"])
    assert state.current != old
    assert site.bundles(VALIDATING) == [state.current.ca_pem]


def test_only_a_terminal_gets_colours(tmp_path: Path) -> None:
    authority.write(fresh(), tmp_path)
    plain = run("inspect", tmp_path).output
    coloured = CliRunner().invoke(program, ["inspect", str(tmp_path)], color=True).output

    assert plain == click.unstyle(coloured)
    assert plain != coloured
