"""A post-renderer for helm: API servers call the webhooks at a port of this machine instead of a Service.

`python -m tools.clusters.helm.by_address PORT` reads the rendered chart, and writes it with a `url` in place
of the `service` of every webhook, and a long timeout. `flags` makes helm 3 run it; helm 4 accepts only
plugins as post-renderers.
"""

import sys

import yaml

from tools.clusters import shipped


def flags(port: int) -> tuple[str, ...]:
    """Return the flags of `helm install` and `helm upgrade`; run helm where `tools` can be imported."""
    arguments = ("-m", "tools.clusters.helm.by_address", str(port))
    return (
        f"--post-renderer={sys.executable}",
        *(f"--post-renderer-args={argument}" for argument in arguments),
    )


def main(port: int) -> None:
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    changed = [shipped.patient(shipped.by_address(document, port)) for document in documents]
    yaml.safe_dump_all(changed, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
