from privpac.papers.vc_dimension_one.combined_trees import glue as glue
from privpac.papers.vc_dimension_one.combined_trees import graft as graft

from .addresses import AddressTree as AddressTree
from .base import PartNodes as PartNodes
from .base import TreeRule as TreeRule
from .base import VC1Tree as VC1Tree
from .base import part_node as part_node
from .branches import BranchThresholds as BranchThresholds
from .explicit import ExplicitTree as ExplicitTree
from .named import parse_tree as parse_tree
from .nodes import TreeNodes as TreeNodes
from .paths import PathTree as PathTree
from .paths import StarTree as StarTree
from .prefixes import PrefixTree as PrefixTree
from .taxonomy import Taxonomy as Taxonomy
