"""From item level to user level: the literal transformation, deletion stability, trimmed means, and two baselines."""
