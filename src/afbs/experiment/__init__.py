"""Running: put a configuration together, carry it out, take it up again, hold it against its record."""

from afbs.experiment.assembly import schedule
from afbs.experiment.running import Interrupted, resume, run
from afbs.experiment.verifying import Verdict, verify

__all__ = ["Interrupted", "Verdict", "resume", "run", "schedule", "verify"]
