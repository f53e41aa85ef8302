"""What scenarios are drawn from: recipes.yaml has a recipe for each kind of them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """Draws from a recipe, or from the part of it that pods are drawn from."""

    rng: random.Random
    recipe: Mapping[str, Any]

    def pick(self, name: str) -> Any:  # noqa: ANN401 - of the type that the recipe has
        return self.rng.choice(self.recipe[name])

    def happens(self, share: str | float) -> bool:
        return self.rng.random() < (self.recipe[share] if isinstance(share, str) else share)


def _flat(recipe: Json) -> Json:
    """The recipe with lists of choices, not of lists of them."""
    return {name: [*_choices(own)] if isinstance(own, list) else own for name, own in recipe.items()}


def _choices(listed: list[Any]) -> Any:  # noqa: ANN401 - as above
    for one in listed:
        yield from _choices(one) if isinstance(one, list) else [one]


_READ = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())

TOPOLOGY_OPTIONS: Mapping[str, Mapping[str, str]] = _READ["topology_options"]
RECIPES: Mapping[str, Json] = {
    kind: _flat(_READ["default"] | own | {"pods": _flat(_READ["pods"] | own.get("pods", {}))})
    for kind, own in _READ["kinds"].items()
}
