"""Files: documents in JSON and YAML, snapshots of clusters, and the policy."""
