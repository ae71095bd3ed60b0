"""One algorithm a file: the file's name is its name in a configuration. None imports another."""
