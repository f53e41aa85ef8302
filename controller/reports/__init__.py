"""Policy reports: which pods fall short, and which nodes tell nothing, for other programs."""
