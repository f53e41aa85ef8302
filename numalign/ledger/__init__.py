"""The ledger: which pods hold what on each node, and what is free."""
