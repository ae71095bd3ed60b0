"""The number of the run folder's format; the only place where it stands."""

SCHEMA = 2
