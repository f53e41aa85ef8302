"""The real descheduler, built and run against a control plane."""
