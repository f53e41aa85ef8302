"""Who holds what on each node, and what is free beside that."""
