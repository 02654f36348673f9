"""Learn decision rules from people's data while protecting each person, not each row.

========================  ==============================================================================================
Data                      UserData, scan, from_spark; Integers, Grid, Floats, Dates, Categories, Texts, Missing;
                          Schema, suggest_domains, check
Learn                     learn, list_methods, load, Released
How good is it            evaluate, select_model, best_error, plan_evaluation, plan_best_error
Kinds of rules            Thresholds, Stumps, Intervals, Points, Rectangles, Conjunctions, Disjunctions, DecisionLists,
                          Parities, Binarized, Halfspaces, SmallTrees, Scorecards, FiniteClass
Hierarchies               PrefixTree, PathTree, AddressTree, Taxonomy, StarTree, BranchThresholds, VC1Tree, parse_tree
Distributions             learn_distribution, select_distribution, quantile
Before and after          plan, audit, auditing, bounds
Promise and budget        Guarantee, BudgetLedger, release, Law, BOTTOM
Learners                  HybridSelection, RegretSelection, RealizableSelection, TrimmedSelection, SmallTreeLearner,
                          TreeLearner, AgreementLearner, AgnosticReduction, VotePredictor, DeletionStability,
                          TrimmedMean, FriendlyMean, ScorecardLearner, NamedReduction, WithFallback, at_user_level,
                          private_cap
Without a curator         LocalProtocol, ShuffleProtocol, simulate_agreement
========================  ==============================================================================================

``privpac.sklearn`` has estimators, ``help(privpac.learn)`` starts with the call that most people need.  Names are
resolved on first use, so that ``privpac.device`` imports nothing but the standard library and numpy.
"""

from privpac.lazy import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
