"""Certified bounds on the number of users, as pure functions of public numbers.

Upper bounds (``plan_*``, ``certify_*``) say how many users suffice and on which assumption that rests; lower bounds
(``lower_*``) say how many no private algorithm can do without.  Both return a :class:`Certificate`.  Names are resolved
on first use; import from the modules themselves where a type checker should see signatures.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
