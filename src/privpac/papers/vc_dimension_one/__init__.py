"""Classes of VC dimension 1: trees from trees, and quantiles by hidden walks."""
