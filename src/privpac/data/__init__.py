"""Tables, domains and users: what learners fold.

``UserData`` groups a table by user and encodes it on declared ``Domain`` s; ``Users`` and ``Kernel`` are the contract
between a dataset, wherever it lives, and a learner.
"""

from privpac.data.declare import parse_domain, parse_feature
from privpac.data.domains import Categories, Dates, Domain, Floats, Grid, Integers, Missing, Texts
from privpac.data.schema import OnInvalid
from privpac.data.schema_file import Schema
from privpac.data.suggest import suggest_domains
from privpac.data.users import Kernel, UserData, Users

__all__ = [
    "Categories",
    "Dates",
    "Domain",
    "Floats",
    "Grid",
    "Integers",
    "Kernel",
    "Missing",
    "OnInvalid",
    "Schema",
    "Texts",
    "UserData",
    "Users",
    "parse_domain",
    "parse_feature",
    "suggest_domains",
]
