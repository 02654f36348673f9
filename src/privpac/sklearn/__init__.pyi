from .classifier import PrivateRuleClassifier as PrivateRuleClassifier
from .density import PrivateGaussian as PrivateGaussian
from .density import PrivateHistogram as PrivateHistogram
from .search import PrivateSearchCV as PrivateSearchCV
