"""Learn decision rules from people's data while protecting each person, not each row.

Names are resolved on first use, so that the light parts (``privpac.agreement``, ``privpac.protocols.client``)
import nothing but the standard library and numpy.
"""

from privpac.lazy import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
