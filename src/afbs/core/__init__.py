"""Pure functions of numpy arrays and small values: no torch, no files, no clock."""
