"""How many users do I need?  Plans over all methods, from public numbers only."""

from privpac.planning.plan import Plan, PlanRow, plan

__all__ = ["Plan", "PlanRow", "plan"]
