"""What every program of numalign shares: values, rules, ledger, cache, process and API server."""
