"""docs/reference/flags.md: every flag of the programs that run in a cluster, from their settings."""

from collections.abc import Iterator, Mapping

from agent.settings import AgentSettings
from controller.settings import ControllerSettings
from numalign.runtime import settings
from numalign.runtime.settings import SettingHelp, Settings
from scorer.settings import ScorerSettings
from tools.generate.reference.tables import cell, code, table
from webhook.settings import WebhookSettings

PROGRAMS: Mapping[str, type[Settings]] = {
    "numalign-webhook": WebhookSettings,
    "numalign-scorer": ScorerSettings,
    "numalign-controller": ControllerSettings,
    "numalign-agent": AgentSettings,
}

HEAD = f"""# Flags of the programs

The settings of `numalign-webhook`, `numalign-scorer`, `numalign-controller` and `numalign-agent`.
{settings.ORDER}
For example, the variable of `--log-level` is `NUMALIGN_LOG_LEVEL`, and its key in the file is `log-level`.
A program reports all mistakes in its settings at once and exits with code 2.

The chart sets most of these flags by [its values](values.md). [kubectl numa](kubectl-numa.md) and
[numalign-certs](numalign-certs.md) have pages of their own.
"""


def page() -> str:
    groups: dict[type, dict[str, list[SettingHelp]]] = {}
    for program, model in PROGRAMS.items():
        for group, described in settings.explained(model).items():
            groups.setdefault(group, {})[program] = described
    sections = (line for group, programs in groups.items() for line in _section(group, programs))
    every = ((code(head), cell(text)) for head, text in settings.EVERY_PROGRAM.items())
    return "\n".join([HEAD, "## Every program\n", table(("flag", "meaning"), every), *sections])


def _section(group: type, programs: Mapping[str, list[SettingHelp]]) -> Iterator[str]:
    yield f"## {settings.summary(group).removesuffix('.')}\n"
    yield f"Used by {', '.join(f'`{program}`' for program in programs)}.\n"
    yield table(("flag", "default", "meaning"), _rows(programs))


def _rows(programs: Mapping[str, list[SettingHelp]]) -> Iterator[tuple[str, str, str]]:
    """A row for each setting; one for each program where programs have other defaults or words for it."""
    for variants in zip(*programs.values(), strict=True):
        if len(set(variants)) == 1:
            yield _row(variants[0])
        else:
            yield from (_row(each, f"{code(name)}: ") for name, each in zip(programs, variants, strict=True))


def _row(setting: SettingHelp, program: str = "") -> tuple[str, str, str]:
    head = f"{setting.flag} {setting.placeholder}".rstrip()
    meaning = program + cell(f"{setting.description} ({setting.expected})")
    return code(head), "" if setting.default == "null" else code(setting.default), meaning
