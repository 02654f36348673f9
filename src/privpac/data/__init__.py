"""Tables, domains and users: what learners fold.

``UserData`` groups a table by user and encodes it on declared ``Domain`` s; ``Users`` and ``Kernel`` are the contract
between a dataset, wherever it lives, and a learner.  A table is declared by a ``TableSpec`` (``spec``), a type of
column is one class (``domains``), an engine one subclass of ``ChunkedUsers`` (``engines.lazy_plan``).  Read ``users``
first.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
