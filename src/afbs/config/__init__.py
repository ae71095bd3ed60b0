"""A run's configuration: TOML tables, checked against the parts they name. Everything has a default.

A table that names a part (`[algorithm]`, `[data]`, …) takes the settings of that part's class; the other tables are
the classes in `tables`. Unknown keys and names are refused with the nearest right one.
"""

from afbs.config._models import with_kernel
from afbs.config._settings import accepts
from afbs.config.reading import TABLES, load
from afbs.config.tables import Config, Evaluation, Record, RunSettings

__all__ = [
    "TABLES",
    "Config",
    "Evaluation",
    "Record",
    "RunSettings",
    "accepts",
    "load",
    "with_kernel",
]
