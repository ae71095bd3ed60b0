"""Many runs as one: cells side by side, resumed cell by cell, told in one table.

Sweep("three", {"afbs": {...}, "fedbuff": {...}}).run("sweeps/three").table
"""

from afbs.sweeps.cells import Cell
from afbs.sweeps.comparing import compare
from afbs.sweeps.outcome import Outcome
from afbs.sweeps.settings import SweepSettings
from afbs.sweeps.sweeping import Sweep, SweepInterrupted, sweep

__all__ = ["Cell", "Outcome", "Sweep", "SweepInterrupted", "SweepSettings", "compare", "sweep"]
