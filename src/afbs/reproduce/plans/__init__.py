"""One file a family of tables or figures; `PLANS` has them all, in the order in which they are run."""

from afbs.reproduce.plans.main import TABLE2, TABLE4
from afbs.reproduce.plans.plan import Plan

PLANS: dict[str, Plan] = {plan.name: plan for plan in (TABLE2, TABLE4)}

__all__ = ["PLANS", "Plan"]
