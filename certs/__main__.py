"""`numalign-certs`: inspects, issues and rotates certificates."""

from certs.cli import PROGRAM, program


def main() -> None:
    """Run the program; end the process with its exit code."""
    program.main(prog_name=PROGRAM)


if __name__ == "__main__":
    main()
