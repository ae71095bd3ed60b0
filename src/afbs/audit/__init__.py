"""Plays the curious server on a configuration's own clients, and says in words what it found.

Each mechanism brings its own attacks (`afbs.privacy.exposure`); here they are run, scored beside the clusters and the
side channel, and written. Nothing imports this package but the command line.
"""
