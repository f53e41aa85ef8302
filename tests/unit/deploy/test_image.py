"""The images, as far as they can be looked at without an engine: what is in them, and that the steps work."""

import asyncio
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.generate.manifests import DEPLOY, Installation, everything, installed

ROOT = DEPLOY.parent
FILE = DEPLOY / "Dockerfile"
PINNED = re.compile(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of the Dockerfile."""

    verb: str
    rest: str

    @property
    def words(self) -> list[str]:
        """What follows the verb, flags left out."""
        return [word for word in self.rest.split() if not word.startswith("--")]


def steps() -> Iterator[Step]:
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        verb, _, rest = line.partition(" ")
        yield Step(verb, rest)


def stages() -> list[list[Step]]:
    found: list[list[Step]] = []
    for step in steps():
        if step.verb == "FROM":
            found.append([])
        found[-1].append(step)
    return found


BUILD, BUILD_AGENT, AGENT, FINAL = STAGES = stages()


def test_all_stages_start_from_the_same_image_of_exact_bytes() -> None:
    [image] = {stage[0].words[0] for stage in STAGES}
    assert PINNED.fullmatch(image)


def test_who_names_no_stage_builds_the_last_and_the_agent_is_built_by_name() -> None:
    assert [stage[0].words[1:] for stage in (AGENT, FINAL)] == [["AS", "agent"], []]


def test_the_image_has_the_oldest_python_that_is_supported() -> None:
    """What runs there runs on every newer one; the hashes of the requirements are of wheels for it."""
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert BUILD[0].rest.startswith(f"python:{supported.removeprefix('>=')}.")


def test_what_is_copied_is_there_and_is_let_into_the_build() -> None:
    let_in = {
        line.removeprefix("!") for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    }
    copied = [
        source
        for step in (*BUILD, *BUILD_AGENT)
        if step.verb == "COPY" and "--from=build" not in step.rest
        for source in step.words[:-1]
    ]
    assert copied
    assert [source for source in copied if not (ROOT / source).exists() or source not in let_in] == []


@pytest.mark.parametrize(
    ("stage", "program"), [(FINAL, "numalign-webhook"), (AGENT, "numalign-agent")], ids=["webhook", "agent"]
)
def test_the_program_runs_as_nobody_and_without_a_shell(stage: list[Step], program: str) -> None:
    verbs = {step.verb: step.rest for step in stage}
    assert verbs["USER"] == "65532:65532"
    assert verbs["ENTRYPOINT"] == f'["/opt/numalign/bin/{program}"]'
    assert program in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert verbs.keys().isdisjoint({"RUN", "CMD", "SHELL", "ADD"})


def test_every_package_of_the_project_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {step.words[0] for step in BUILD if step.verb == "COPY"} >= set(packages)


@pytest.mark.parametrize("name", ["numalign-controller", "numalign-scorer"])
def test_other_programs_start_from_where_the_image_has_them(name: str) -> None:
    [program] = Installation(everything()).container(name)["command"]
    folder, _, called = program.rpartition("/")
    assert f'["{folder}/numalign-webhook"]' in {step.rest for step in FINAL}
    assert called == name
    assert called in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def test_the_image_and_the_pod_agree_on_who_runs_it_and_where_it_listens() -> None:
    pod = installed(".").pod("numalign-webhook")
    verbs = {step.verb: step.rest for step in FINAL}
    context = pod["securityContext"]
    assert verbs["USER"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert int(verbs["EXPOSE"]) == pod["containers"][0]["ports"][0]["containerPort"]


@pytest.mark.packaging
@pytest.mark.timeout(600)
async def test_the_steps_make_a_program_that_starts(tmp_path: Path) -> None:
    """Every COPY and RUN of two stages, with folders of this test in place of the images' own."""
    image = tmp_path / "usr"
    await command(f"{sys.executable} -m venv {image}", cwd=tmp_path)
    places = {name: tmp_path / name for name in ("src", "opt", "wheels")}
    for folder in places.values():
        folder.mkdir()
    await take(BUILD, places, image)
    made = places["opt"] / "numalign" / "bin"
    for program in ("numalign-webhook", "numalign-controller", "numalign-scorer"):
        said = await command(f"{made}/{program} --version", cwd=tmp_path)
        assert said.startswith(f"{program} 0.")
    # Traces are an extra of the project, which this image has.
    await command(f"{made}/python -c 'import numalign.runtime.otlp'", cwd=tmp_path)
    assert not (made / "pip").exists()

    # The wheel stays where the other stage copies it from.
    for name in ("src", "opt"):
        shutil.rmtree(places[name])
        places[name].mkdir()
    await take(BUILD_AGENT, places, image)
    assert (await command(f"{made}/numalign-agent --version", cwd=tmp_path)).startswith("numalign-agent 0.")
    await command(f"{made}/python -c 'import numalign.agent.daemon'", cwd=tmp_path)


async def take(stage: list[Step], places: dict[str, Path], image: Path) -> None:
    """The steps of a stage; what it copies from another one is there already."""
    for step in stage:
        if step.verb == "COPY" and "--from" not in step.rest:
            copy(step.words, into=places["src"])
        if step.verb == "RUN":
            await command(moved(step.rest, places), cwd=places["src"], path=f"{image}/bin:/usr/bin:/bin")


def moved(line: str, places: dict[str, Path]) -> str:
    """A command with its absolute paths brought below others."""
    return re.sub(r"(?<!\S)/(opt|wheels|src)\b", lambda found: str(places[found[1]]), line)


def copy(words: list[str], *, into: Path) -> None:
    *sources, target = words
    for source in map(ROOT.joinpath, sources):
        to = into / target
        if source.is_dir():
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to)


async def command(line: str, *, cwd: Path, path: str | None = None) -> str:
    """What a command says; the test fails with it where the command does."""
    process = await asyncio.create_subprocess_shell(
        line,
        cwd=cwd,
        env={"PATH": path} if path else None,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{line}\n{said.decode()}"
    return said.decode()
