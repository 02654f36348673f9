from privpac.papers.vc_dimension_one.walk_quantiles import WalkQuantile as WalkQuantile

from .quantile_learner import QuantileLearner as QuantileLearner
from .result import Quantiles as Quantiles
