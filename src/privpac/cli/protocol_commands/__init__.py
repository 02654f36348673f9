"""``privpac protocol``: manifests, and one command for each role."""
