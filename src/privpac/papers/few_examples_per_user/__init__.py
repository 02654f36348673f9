"""From item level to user level by deletion stability, clipped pairwise selection, and selection from finite covers of
families of distributions.  Read ``pairwise`` first."""
