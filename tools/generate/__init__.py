"""Generate what is committed from what it describes: manifests, pages, the dashboard, recordings."""
