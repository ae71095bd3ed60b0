"""What is learned: one task a file; what is checked of one, and how what it counted becomes a score."""

from afbs.tasks._checks import check_task, with_target
from afbs.tasks._scores import check_names, on_clients, on_test_set

__all__ = ["check_names", "check_task", "on_clients", "on_test_set", "with_target"]
