from .coupling import race_disagreement as race_disagreement
from .coupling import stream_disagreement as stream_disagreement
from .coupling import stream_sample as stream_sample
from .coupling import total_variation as total_variation
from .population import StableHypothesis as StableHypothesis
from .population import stable_hypothesis as stable_hypothesis
from .tournament import tournament_blocks as tournament_blocks
from .tournament import tournament_lists as tournament_lists
