"""The paper's tables and figures from real runs, each figure beside the published one.

afbs reproduce list
afbs reproduce table4 --dataset mnist --clusters 1 --virtual-days 0.5
"""

from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import EXHIBITS
from afbs.reproduce.refusing import refuse, suited
from afbs.reproduce.running import collected, reproduced

__all__ = ["EXHIBITS", "Choice", "collected", "refuse", "reproduced", "suited"]
