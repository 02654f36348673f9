from .evaluator import Evaluator as Evaluator
from .least import LeastError as LeastError
from .least import LeastErrorBound as LeastErrorBound
from .least import excess_bound as excess_bound
from .plan import EvaluationPlan as EvaluationPlan
from .plan import plan_evaluation as plan_evaluation
from .result import Evaluation as Evaluation
from .result import Rate as Rate
