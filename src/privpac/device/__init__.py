"""What runs on somebody's device: one person in, one message out.

Records become one item (``items``, the learners named in ``tasks``), the item one message (``randomizers``, ``wire``,
``keys``), after the promise of the run's ``manifest`` was recomputed and the person's ``store`` charged; ``client`` is
all of it in one class and a command, ``submit`` sends.  Everything is integer arithmetic on the standard library and
numpy, so that every device gets the same bits; of the rest of the package ``errors``, ``files``, ``lazy`` and ``rng``
are imported and nothing else.  The client's distribution (``clients/python``) is this folder.  Read ``client`` first.

Names are resolved on first use; import from the modules themselves where a type checker should see signatures.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
