"""The version of the package; the only place where it stands."""

VERSION = "0.2.0"
