"""The generated pages of docs/reference: `python -m tools.generate reference`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.generate.reference import commands_page, flags_page, values_page, versions_page

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "flags.md": flags_page.page,
    "kubectl-numa.md": commands_page.kubectl_numa_page,
    "kubelet-versions.md": versions_page.page,
    "numalign-certs.md": commands_page.certs_page,
    "values.md": values_page.page,
}


def files() -> dict[Path, str]:
    return {FOLDER / name: page() for name, page in PAGES.items()}
