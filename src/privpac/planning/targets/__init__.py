"""What may be planned for: rules, trees, agreement, families of distributions, medians.  Each is a target with its
methods, its simulations and its recommendation."""
