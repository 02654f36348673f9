"""Agreement: many users turn their own records into the same item with the help of public randomness.

One user in, one item out.  Everything is integer arithmetic on the standard library and numpy, so that a device can run
it and every device gets the same bits.  A private selection among the users' items (elsewhere) is what protects them;
see ``learner``.

Names are resolved on first use; import from the modules themselves where a type checker should see signatures.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
