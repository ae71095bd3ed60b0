"""What is said of an exception in a worker."""

from __future__ import annotations


def failure(trace: str) -> str:
    """The exception's own line, in one sentence, and then the whole traceback."""
    lines = trace.strip("\n").splitlines()
    deepest = max((place for place, line in enumerate(lines) if line.startswith("  File ")), default=len(lines))
    raised = next((line for line in lines[deepest:] if not line.startswith(" ")), lines[-1])
    return "\n".join([f"A worker failed: {raised}", *lines])
