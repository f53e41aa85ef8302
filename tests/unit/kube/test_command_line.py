"""The flags that lead to a cluster are kubectl's own, and are read as kubectl reads them."""

import click
import pytest
from click.testing import CliRunner

from numalign.kube.command_line import CommandGroup, duration, from_kubeconfig
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from tests.worlds.notation import table


@click.group(cls=CommandGroup)
def program() -> None: ...


@program.command()
@from_kubeconfig
def show(*, connection: Connection) -> None:
    click.echo(f"{connection!r} {connection.token}")


@pytest.mark.parametrize(("flags", "expected"), table([
    # what it shows          the flags                                       what they mean
    ("nothing",              "",                                             FROM_KUBECONFIG),
    ("a kubeconfig",         "--kubeconfig=a --context=b",                   Connection("a", "b")),
    ("an authority",         "--certificate-authority ca.crt",
     Connection(certificate_authority="ca.crt")),
    ("no authority",         "--insecure-skip-tls-verify",                   Connection(insecure=True)),
    ("another user",        "--as jane --as-group=dev --as-group ops",
     Connection(user="jane", groups=("dev", "ops"))),
    ("a time",               "--request-timeout=1m30s",  Connection(request_timeout=90.0)),
    ("no time",              "--request-timeout=0",                          FROM_KUBECONFIG),
]))  # fmt: skip
def test_flags_of_a_connection(flags: str, expected: Connection) -> None:
    result = CliRunner().invoke(program, ["show", *flags.split()])
    assert result.output == f"{expected!r} None\n"


def test_a_token_is_taken() -> None:
    assert CliRunner().invoke(program, ["show", "--token=secret"]).output.endswith(" secret\n")


@pytest.mark.parametrize("flags", ["--server api", "--as-group dev", "--request-timeout soon", "--token="])
def test_invalid_flags_exit_with_2(flags: str) -> None:
    result = CliRunner().invoke(program, ["show", *flags.split()])
    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert flags.partition(" ")[0].partition("=")[0] in result.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("500ms", 0.5), ("1h1m1s1ms", 3661.001)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1x", "1s x", "1s2", "1d", "9" * 400, "1.5.5s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(
        ValueError, match="a duration is a number of seconds, or numbers with the units h, m, s and ms"
    ):
        duration(text)
