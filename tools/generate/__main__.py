"""Writes the files that are generated from the sources: `python -m tools.generate [PART ...] [--check]`."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.clusters.gotools import UnavailableError
from tools.generate import agreement, dashboard, manifests, reference

PARTS: Mapping[str, Callable[[], Mapping[Path, str]]] = {
    "manifests": manifests.files,
    "dashboard": lambda: {dashboard.FILE: dashboard.text()},
    "reference": reference.files,
    "agreement": lambda: {agreement.PAGE: agreement.text()},
}


def main() -> int:
    """Run the program, and return its exit code: 1 if a checked file would change or cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and list files that would change"
    )
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    try:
        made = {file: text for part in options.parts or PARTS for file, text in PARTS[part]().items()}
    except (UnavailableError, agreement.DisagreementError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    changed = [file for file, text in made.items() if not file.exists() or file.read_text() != text]
    for file in changed:
        sys.stdout.write(f"{file}\n")
        if not options.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(made[file])
    return bool(options.check and changed)


if __name__ == "__main__":
    sys.exit(main())
