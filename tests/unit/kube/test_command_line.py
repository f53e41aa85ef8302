"""The flags that lead to a cluster are kubectl's own, and are read as kubectl reads them."""

import click
import pytest
from click.testing import CliRunner

from numalign.kube.command_line import CommandGroup, duration, from_kubeconfig
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.model.errors import BadInput
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


@pytest.mark.parametrize("flags", ["--server api", "--as-group dev", "--request-timeout soon", "--token="])
def test_invalid_flags_exit_with_2(flags: str) -> None:
    result = CliRunner().invoke(program, ["show", *flags.split()])
    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert flags.partition(" ")[0].partition("=")[0] in result.output


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("1m30s", 90), ("2h", 7200), ("1h1m1s1ms", 3661.001)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1x", "1s x", "1s2", "1d", "9" * 400, "1.5.5s"])
def test_invalid_durations(text: str) -> None:
    units = "a duration is a number of seconds, or numbers with the units h, m, s and ms"
    with pytest.raises(ValueError, match=units):
        duration(text)


@pytest.mark.parametrize(("flags", "option"), table([
    # what it shows                    flags                                                the wrong flag
    ("a server without a scheme",      {"server": "10.0.0.1:6443"},                         "--server"),
    ("a server of another scheme",     {"server": "ftp://api.example"},                     "--server"),
    ("a server without a host",        {"server": "https://:6443"},                         "--server"),
    ("a server with no such port",     {"server": "https://api:port"},                      "--server"),
    ("an empty token",                 {"token": ""},                                       "--token"),
    ("a token of two lines",           {"token": "a\nX-Other: b"},                          "--token"),
    ("a token that is not ASCII",      {"token": "\N{SNOWMAN}"},                            "--token"),
    ("an empty user",                  {"user": ""},                                        "--as"),
    ("a user of two lines",            {"user": "jane\r\nX-Other: b"},                      "--as"),
    ("a group without a user",         {"groups": ("dev",)},                                "--as-group"),
    ("an empty group",                 {"user": "jane", "groups": ("dev", "")},             "--as-group"),
    ("an authority without verification", {"certificate_authority": "ca", "insecure": True},
     "--certificate-authority"),
]))  # fmt: skip
def test_mistakes_name_their_flag(flags: dict[str, object], option: str) -> None:
    with pytest.raises(BadInput) as raised:
        Connection(**flags)  # type: ignore[arg-type]
    assert [mistake.where for mistake in raised.value.mistakes] == [option]


def test_all_mistakes_are_raised_together() -> None:
    with pytest.raises(BadInput) as raised:
        Connection(server="api", token="", groups=("dev",))
    assert [mistake.where for mistake in raised.value.mistakes] == ["--server", "--token", "--as-group"]


def test_connections_that_name_a_cluster() -> None:
    naming = Connection("kubeconfig"), Connection(context="other"), Connection(server="https://api.example")
    assert all(connection.named for connection in naming)
    assert not FROM_KUBECONFIG.named
    assert not Connection(token="secret", user="jane").named  # noqa: S106 - of no server


def test_a_token_is_taken_and_never_shown() -> None:
    assert CliRunner().invoke(program, ["show", "--token=secret"]).output.endswith(" secret\n")
    assert "secret" not in repr(Connection(token="secret"))  # noqa: S106 - of no server
