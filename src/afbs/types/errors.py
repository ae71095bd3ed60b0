"""What goes wrong: by the user's hand, or by itself."""

from __future__ import annotations


class UserError(Exception):
    """Something the user wrote is wrong. The message says where, what, and what would do."""


class RunError(Exception):
    """A run that was rightly configured could not go on. Its folder can be resumed once the cause is gone."""
