"""How many users do I need, and which method?  From public numbers only."""

from privpac.planning.ask import plan
from privpac.planning.choose import Choice, choose_method
from privpac.planning.inverse import InversePlan, InverseRow
from privpac.planning.plan import Plan, PlanRow, plan_users
from privpac.planning.service import ServicePlan, plan_service
from privpac.planning.trees import plan_of_tree

__all__ = [
    "Choice",
    "InversePlan",
    "InverseRow",
    "Plan",
    "PlanRow",
    "ServicePlan",
    "choose_method",
    "plan",
    "plan_of_tree",
    "plan_service",
    "plan_users",
]
