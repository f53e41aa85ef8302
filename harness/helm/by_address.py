"""A post-renderer for helm: API servers call the webhook at a port of this machine, where no Service leads.

`python -m harness.helm.by_address PORT` reads what a chart renders to, and writes it with a `url` in place of
the `service` of every webhook. `flags` has helm 3 run it; helm 4 takes only plugins as post-renderers.
"""

import sys

import yaml

from harness import shipped


def flags(port: int) -> tuple[str, ...]:
    """The flags of `helm install` and `helm upgrade`, to be run where `harness` can be imported."""
    arguments = ("-m", "harness.helm.by_address", str(port))
    return (
        f"--post-renderer={sys.executable}",
        *(f"--post-renderer-args={argument}" for argument in arguments),
    )


def main(port: int) -> None:
    """The documents of standard input, on standard output."""
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    yaml.safe_dump_all([shipped.by_address(document, port) for document in documents], sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
