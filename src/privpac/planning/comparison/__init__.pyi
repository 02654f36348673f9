from privpac.planning.populations import Population as Population
from privpac.planning.populations import declared_population as declared_population
from privpac.planning.populations import generated_population as generated_population
from privpac.planning.populations import public_population as public_population
from privpac.planning.populations import sampled_population as sampled_population

from .comparing import Comparison as Comparison
from .comparing import Measured as Measured
from .comparing import compare as compare
from .methods_compared import Contender as Contender
from .methods_compared import Setting as Setting
from .methods_compared import dp_sgd as dp_sgd
from .noisy_gradients import NoisyGradients as NoisyGradients
