"""Protocols: manifests, wire format, devices, shuffler and analyzers for data that stay with the people."""
