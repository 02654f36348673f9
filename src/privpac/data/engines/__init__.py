"""Users that do not fit into memory: Parquet streamed from disk, and tables on an Apache Spark cluster.

Both keep the contract of :class:`privpac.data.Users`: a learner asks for a fold and does not know where the rows are.
An engine only decides *which whole users* form a chunk; every chunk is an ordinary ``UserData`` made by the same code
as in memory, and chunks are merged by integer addition.  So the profile, and with it the law that is sampled, is the
same on every engine.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
