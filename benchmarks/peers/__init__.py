"""Other simulators on the same work as ours, each in its own environment. `python -m benchmarks.peers.run --help`."""
