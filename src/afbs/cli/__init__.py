"""The command line. Each file beside this one adds its commands."""
