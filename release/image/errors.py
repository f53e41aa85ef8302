"""What stops a build."""


class BuildError(Exception):
    """The text says what is wrong, where, and what to do."""
