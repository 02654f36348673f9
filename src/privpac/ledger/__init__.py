"""A durable budget, and the one way from data to a release.

``ledger`` keeps the budget, ``releases`` pays before it draws, ``queries`` counts the answers of prediction sessions;
``records`` is what the file says and the rule by which spends add up, ``file`` how that reaches the disk and stays
there.
"""

from privpac.ledger.ledger import BudgetLedger, LedgerLike
from privpac.ledger.queries import Answer, Ask
from privpac.ledger.records import Balance, CompositionRule, Receipt, Spend
from privpac.ledger.releases import Releasable, check_room, release

__all__ = [
    "Answer",
    "Ask",
    "Balance",
    "BudgetLedger",
    "CompositionRule",
    "LedgerLike",
    "Receipt",
    "Releasable",
    "Spend",
    "check_room",
    "release",
]
