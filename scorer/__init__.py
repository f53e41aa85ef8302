"""Door 2: the scheduler comes in."""
