"""Fields of installed objects by short paths, so that a table can list them."""

from typing import Any

from agent.settings import AgentSettings
from controller.settings import ControllerSettings
from numalign.runtime.settings import ProcessSettings
from scorer.settings import ScorerSettings
from tools.generate.manifests import Installation
from webhook.settings import WebhookSettings

WEBHOOK, CONTROLLER, SCORER, SCHEDULER, AGENT = (
    f"numalign-{name}" for name in ("webhook", "controller", "scorer", "scheduler", "agent")
)
PROGRAMS: dict[str, type[ProcessSettings]] = {
    WEBHOOK: WebhookSettings,
    CONTROLLER: ControllerSettings,
    SCORER: ScorerSettings,
    AGENT: AgentSettings,
}


def field(found: Installation, of: str, path: str = "") -> Any:  # noqa: ANN401  a value of YAML
    """Return a field of an object, of a pod or container of a program, or of the settings that it reads.

    `of` is a kind and a name without `numalign-`, such as `Service webhook` or `container agent`.
    """
    kind, _, short = of.partition(" ")
    name = f"numalign-{short}"
    match kind:
        case "entries":
            return walk([*found.entries], path)
        case "extender":
            return walk(found.scheduler_configuration()["extenders"][0], path)
        case "pod":
            return walk(found.pod(name), path)
        case "container":
            return walk(found.container(name), path)
        case "settings":
            return getattr(found.settings(name, PROGRAMS[name]), path)
        case _:
            return walk(found.get((kind, name), found.get((kind, short))), path)


def walk(tree: Any, path: str) -> Any:  # noqa: ANN401  a value of YAML
    """Return the value at a path of keys, positions, and `key=value` for the only such item of a list.

    `*` is a list of the rest of the path in all items. A missing key is None.
    """
    step, _, rest = path.partition(" ")
    if not step:
        return tree
    match tree:
        case list() if step == "*":
            return [walk(item, rest) for item in tree]
        case list() if "=" in step:
            key, _, value = step.partition("=")
            [tree] = [item for item in tree if item.get(key) == value]
        case list():
            tree = tree[int(step)]
        case dict():
            tree = tree.get(step)
    return walk(tree, rest)
