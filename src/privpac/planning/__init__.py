"""How many users do I need, and which method?  From public numbers only."""

from privpac.planning.choose import Choice, choose_method
from privpac.planning.plan import Plan, PlanRow, plan

__all__ = ["Choice", "Plan", "PlanRow", "choose_method", "plan"]
