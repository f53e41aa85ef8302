"""The real Kubeflow Trainer, built and run next to a control plane."""
