"""A map that is served in this process, and a real browser for it."""
