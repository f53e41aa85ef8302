"""The commands: each parses its options, calls other modules for the answer, and prints it."""
