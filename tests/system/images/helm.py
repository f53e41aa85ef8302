"""Helm, as a person runs it."""

import os
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.processes import run

RELEASE, NAMESPACE = "numalign", "numalign-system"


@dataclass(frozen=True, slots=True)
class Helm:
    program: Path
    chart: Path
    kubeconfig: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which a person's shell runs helm and kubectl as this one does."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.program.parent}{os.pathsep}{os.environ['PATH']}",
        }

    async def __call__(self, *arguments: str) -> str:
        """What a command prints; the test fails with it if the command does."""
        words = (str(self.program), *arguments, f"--namespace={NAMESPACE}")
        code, output = await run(*words, **self.environment)
        assert code == 0, f"helm {' '.join(arguments)}\n{output}"
        return output
