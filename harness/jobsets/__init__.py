"""The real controller of JobSets, built and run beside a control plane."""
