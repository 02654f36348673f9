"""Selection among candidate distributions by clipped Scheffé counts."""
