"""What every door of numalign shares: the rules, the fleet, the process and the API server."""
