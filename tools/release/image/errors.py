"""The error that stops a build."""


class BuildError(Exception):
    """Raised if an image cannot be built; the message says what is wrong, where, and what to do."""
