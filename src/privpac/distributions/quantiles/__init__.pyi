from .learner import QuantileLearner as QuantileLearner
from .result import Quantiles as Quantiles
from .walks import WalkQuantile as WalkQuantile
