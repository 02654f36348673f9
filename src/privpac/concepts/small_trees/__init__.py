"""Small trees: at most three yes-or-no questions about the columns of a wide table.

Read ``columns`` first (public bins and tests), then ``shape`` (which trees there are and what each costs), ``tree``
(one tree: predicts, prints, saves), ``classes`` (the class of them) and ``cells`` (the integers that a table is folded
into).
"""

from privpac.concepts.small_trees.classes import SmallTrees
from privpac.concepts.small_trees.tree import SmallTree

__all__ = ["SmallTree", "SmallTrees"]
