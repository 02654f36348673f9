"""Results of the five papers that another method dominates in ordinary use: complete, tested, reached by name.

One folder for each paper; ``rates`` has the papers' tables with numbers, ``noisy_min`` and ``correlated_sampling`` what
serves proofs and comparisons only.  May import everything; the rest of the package loads it on request, under the names
in the registry.
"""
