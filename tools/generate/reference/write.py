"""Writes the generated pages of docs/reference: `python -m tools.generate.reference.write`."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tools.generate.reference import commands_page, flags_page, values_page, versions_page

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "flags.md": flags_page.page,
        "kubectl-numa.md": commands_page.kubectl_numa_page,
        "kubelet-versions.md": versions_page.page,
        "numalign-certs.md": commands_page.certs_page,
        "values.md": values_page.page,
    }
)


def main() -> None:
    """Write every page anew."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    main()
