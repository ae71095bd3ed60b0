"""What afbs costs, measured. `python -m benchmarks`: several things in one run, in turn, reported as ratios."""
