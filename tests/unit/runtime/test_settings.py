"""Settings from three sources, with every mistake in one answer."""

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, Field

from numalign.runtime import about, settings
from numalign.runtime.settings import Contradiction, Settings, SettingsError
from tests.worlds.notation import table


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


def even(number: int) -> int:
    if number % 2:
        raise ValueError("an even number is needed")
    return number


class Shape(Settings):
    """How it looks."""

    colour: Colour = Field(default=Colour.RED, description="The colour.")
    size: Literal["small", "large"] | None = Field(default=None, description="The size, if any.")


class Toy(Shape):
    """A toy program.

    This is not in the first line.
    """

    port: int = Field(default=8443, ge=0, le=65535, description="A port.")
    pause_seconds: float = Field(default=0.5, gt=0, description="A pause.")
    verbose: bool = Field(default=False, description="Whether to talk.")
    where: Path | None = Field(default=None, description="A file.")
    greeting: str = Field(default="hello", description="What to say.")
    pairs: Annotated[int, AfterValidator(even)] = Field(default=2, description="How many.")

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        if self.pause_seconds > 10 and not self.verbose:
            yield Contradiction(("pause_seconds", "verbose"), "long pauses are for talkers")


def load(*argv: str, **environ: str) -> settings.Loaded[Toy]:
    return settings.load(Toy, argv=argv, environ=environ)


def refusal(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(*argv, **environ)
    return [str(mistake) for mistake in caught.value.mistakes]


# What is written where, and which of them counts.
PRECEDENCE = [
    # flag   environment  file   port  origin
    (None,   None,        None,  8443, "default"),
    (None,   None,        "3",   3,    "file {} line 1: port"),
    (None,   "2",         "3",   2,    "environment NUMALIGN_PORT"),
    ("1",    "2",         "3",   1,    "flag --port"),
    (None,   "",          "3",   3,    "file {} line 1: port"),
    ("1",    "bad",       "bad", 1,    "flag --port"),
]  # fmt: skip


@pytest.mark.parametrize("row", PRECEDENCE, ids=str)
def test_a_flag_beats_the_environment_beats_the_file(
    tmp_path: Path, row: tuple[str | None, str | None, str | None, int, str]
) -> None:
    flag, variable, line, port, origin = row
    path = tmp_path / "config.yaml"
    path.write_text(f"port: {line}" if line else "")
    argv = ["--config", str(path), *(["--port", flag] if flag else [])]
    environ = {"NUMALIGN_PORT": variable} if variable is not None else {}
    loaded = settings.load(Toy, argv=argv, environ=environ)
    assert (loaded.settings.port, loaded.origins["port"]) == (port, origin.format(path))


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("greeting: good day")
    assert load(NUMALIGN_CONFIG=str(tmp_path / "config.yaml")).settings.greeting == "good day"


@pytest.mark.parametrize(("argv", "name", "value"), [
    (["--colour", "green"], "colour", Colour.GREEN),
    (["--size", "large"], "size", "large"),
    (["--pause-seconds", "1e1"], "pause_seconds", 10.0),
    (["--verbose"], "verbose", True),
    (["--verbose", "--verbose=no"], "verbose", False),
    (["--where", "a/b"], "where", Path("a/b")),
    (["--greeting", "grüß gott"], "greeting", "grüß gott"),
])  # fmt: skip
def test_values(argv: list[str], name: str, value: object) -> None:
    assert getattr(load(*argv).settings, name) == value


PORT = "expected a whole number, at least 0 and at most 65535"


@pytest.mark.parametrize(("argv", "expected"), table([
    ("not a number", ["--port", "x"], f'flag --port: "x" is invalid: {PORT}'),
    ("too large", ["--port", "65536"], f'flag --port: "65536" is invalid: {PORT}'),
    ("a fraction", ["--port", "1.5"], f'flag --port: "1.5" is invalid: {PORT}'),
    ("no value", ["--port"], f"flag --port: needs a value: {PORT.removeprefix('expected ')}"),
    ("no path", ["--where="], "flag --where: needs a value: a path"),
    ("no file", ["--config"], "flag --config: needs a path"),
    ("zero", ["--pause-seconds", "0"],
     'flag --pause-seconds: "0" is invalid: expected a number, above 0'),
    ("not finite", ["--pause-seconds", "inf"],
     'flag --pause-seconds: "inf" is invalid: expected a number, above 0'),
    ("a choice of an enumeration", ["--colour", "gren"],
     'flag --colour: "gren" is invalid: expected one of red, green; did you mean green?'),
    ("a choice of words", ["--size", "medium"],
     'flag --size: "medium" is invalid: expected one of small, large'),
    ("neither yes nor no", ["--verbose=perhaps"],
     'flag --verbose: "perhaps" is invalid: expected true or false'),
    ("a rule of the program's own", ["--pairs", "3"],
     'flag --pairs: "3" is invalid: an even number is needed'),
    ("a contradiction with defaults", ["--pause-seconds", "11"],
     "flag --pause-seconds: long pauses are for talkers"),
]))  # fmt: skip
def test_one_mistake(argv: list[str], expected: str) -> None:
    assert refusal(*argv) == [expected]


def test_all_mistakes_of_all_sources_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("colour: blue\nsise: small\nverbose: [yes]\npause_seconds: 99")

    assert refusal(
        "--port", "eighty", "--grating", "hi", "--config", str(path),
        NUMALIGN_PAIRS="five", NUMALIGN_GREETIN="hi", NUMALIGN_VERBOSE="false",
    ) == [
        "flag --grating: is not known; did you mean --greeting?",
        "environment NUMALIGN_GREETIN: is not known; did you mean NUMALIGN_GREETING?",
        f"file {path} line 2: sise: is not known; did you mean size?",
        f"file {path} line 3: verbose: must be a single value, not a list or a mapping",
        f'file {path} line 1: colour: "blue" is invalid: expected one of red, green',
        f'flag --port: "eighty" is invalid: {PORT}',
        'environment NUMALIGN_PAIRS: "five" is invalid: expected a whole number',
        f"file {path} line 4: pause_seconds, environment NUMALIGN_VERBOSE: long pauses are for talkers",
    ]  # fmt: skip


def test_a_contradiction_is_not_judged_on_a_bad_value() -> None:
    assert refusal("--pause-seconds", "99", "--verbose=perhaps") == [
        'flag --verbose: "perhaps" is invalid: expected true or false'
    ]


def declared(name: str, **field: Any) -> type:  # noqa: ANN401 whatever Field takes
    namespace = {"__annotations__": {name: int}, name: Field(**field), "__module__": __name__}
    return type("Declared", (Settings,), namespace)


NO_HELP = "Declared.port needs a default and a description"


@pytest.mark.parametrize(("name", "field", "complaint"), table([
    ("no description",    "port", {"default": 1}, NO_HELP),
    ("no default",        "port", {"description": "A port."}, NO_HELP),
    ("the file's name",   "config", {"default": 1, "description": "x"}, "every program has --config"),
    ("a question's name", "print_config", {"default": 1, "description": "x"}, "every program has --print-"),
]))  # fmt: skip
def test_setting_without_help_is_refused(name: str, field: dict[str, Any], complaint: str) -> None:
    declared("fine", default=1, description="Fine.")
    with pytest.raises(TypeError, match=complaint):
        declared(name, **field)


def start(*argv: str, **environ: str) -> Toy:
    return settings.from_command_line(Toy, prog="toy", argv=argv, environ=environ)


def ending(*argv: str, **environ: str) -> object:
    with pytest.raises(SystemExit) as left:
        start(*argv, **environ)
    return left.value.code


def test_mistakes_end_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert start("--port", "1").port == 1
    assert capsys.readouterr() == ("", "")
    assert ending("--port", "x", "--pairs", "3", "--print-config") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "toy: 2 mistakes in the settings\n"
        f'  flag --port: "x" is invalid: {PORT}\n'
        '  flag --pairs: "3" is invalid: an even number is needed\n'
        "toy --help lists every setting\n"
    )
    assert ending("--port", "x") == 2
    assert capsys.readouterr().err.startswith("toy: 1 mistake in the settings\n")


def test_print_config_shows_values_and_origins(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("greeting: 'yes'\n")
    assert ending("--print-config", "--verbose", "--config", str(path), NUMALIGN_COLOUR="green") == 0
    assert capsys.readouterr().out == (
        "colour: green       # environment NUMALIGN_COLOUR\n"
        "size: null          # default\n"
        "port: 8443          # default\n"
        "pause_seconds: 0.5  # default\n"
        "verbose: true       # flag --verbose\n"
        "where: null         # default\n"
        f"greeting: 'yes'     # file {path} line 1: greeting\n"
        "pairs: 2            # default\n"
    )


@pytest.mark.parametrize("argv", [["--help"], ["-h", "--port", "x"], ["--version", "--help", "--unknown"]])
def test_help_works_with_other_mistakes(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert ending(*argv) == 0
    assert capsys.readouterr().out == settings.usage(Toy, prog="toy") + "\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending("--version", "--port", "x") == 0
    assert capsys.readouterr().out == f"toy {about.version()}\n"
    assert about.version("no-such-distribution-anywhere") == "unknown"


def test_help_groups_settings_by_who_declares_them() -> None:
    lines = settings.usage(Toy, prog="toy").splitlines()
    assert lines[:6] == [
        "usage: toy [--setting VALUE ...]",
        "",
        "How it looks.",
        "  --colour CHOICE",
        "        The colour. (one of red, green; default red; NUMALIGN_COLOUR)",
        "  --size CHOICE",
    ]
    assert lines.index("A toy program.") < lines.index("  --port NUMBER")
    assert "  --verbose" in lines
    assert "  --where PATH" in lines
    assert all(len(line) <= 88 for line in lines)


@given(
    greeting=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1),
    pause=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    size=st.sampled_from(["small", "large", None]),
)
def test_what_print_config_prints_is_a_config_file(
    tmp_path_factory: pytest.TempPathFactory, greeting: str, pause: float, size: str | None
) -> None:
    chosen = Toy.model_validate({"greeting": greeting, "pause_seconds": pause, "size": size, "verbose": True})
    origins = dict.fromkeys(Toy.model_fields, "anywhere")
    path = tmp_path_factory.getbasetemp() / "law.yaml"
    path.write_text(str(settings.Loaded(chosen, origins)), encoding="utf-8")
    assert load("--config", str(path)).settings == chosen
