"""One data set a file."""
