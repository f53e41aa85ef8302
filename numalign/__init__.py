"""What all programs of numalign share: values, rules, ledger, cache, process and API server."""
