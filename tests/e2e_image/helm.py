"""Helm, as a person runs it."""

from dataclasses import dataclass
from pathlib import Path

from harness.processes import run

RELEASE, NAMESPACE = "numalign", "numalign-system"


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm with a kubeconfig, and the packaged chart."""

    program: Path
    chart: Path
    kubeconfig: Path

    async def __call__(self, *arguments: str) -> str:
        """What a command prints; the test fails with it if the command does."""
        words = (str(self.program), *arguments, f"--namespace={NAMESPACE}")
        code, output = await run(*words, KUBECONFIG=str(self.kubeconfig))
        assert code == 0, f"helm {' '.join(arguments)}\n{output}"
        return output
