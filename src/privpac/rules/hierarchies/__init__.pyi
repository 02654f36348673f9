from privpac.papers.vc_dimension_one.combined_trees import glue as glue
from privpac.papers.vc_dimension_one.combined_trees import graft as graft
from privpac.rules.cuts import PathTree as PathTree
from privpac.rules.points import StarTree as StarTree

from .base import PartNodes as PartNodes
from .base import TreeRule as TreeRule
from .base import VC1Tree as VC1Tree
from .base import part_node as part_node
from .explicit import ExplicitTree as ExplicitTree
from .nodes import TreeNodes as TreeNodes
from .regions import AddressTree as AddressTree
from .regions import BranchThresholds as BranchThresholds
from .regions import PrefixTree as PrefixTree
from .regions import Taxonomy as Taxonomy
from .regions import parse_tree as parse_tree
