"""How many users do I need, and which method?  From public numbers only."""

from privpac.planning.choose import Choice, choose_method
from privpac.planning.plan import Plan, PlanRow, plan
from privpac.planning.trees import plan_of_tree

__all__ = ["Choice", "Plan", "PlanRow", "choose_method", "plan", "plan_of_tree"]
