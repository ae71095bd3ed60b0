"""How a model serves each client: every client keeps a fifth of its samples for testing.

    python examples/fairness.py

At so many moments the model is tested on what each client holds out: the mean over clients, that of the worst tenth,
and the spread between them. The tests are jobs like any other, and nobody waits for them.
"""

from __future__ import annotations

import afbs
from afbs.report import write

CONFIG = {
    "data": {"name": "digits"},
    "model": {"name": "mlp"},
    "partition": {"name": "dirichlet", "clients": 30, "alpha": 0.3},
    "training": {"lr": 0.1},
    "run": {"virtual_days": 0.5, "in_flight": 12},
    "evaluation": {"points": 10, "spacing": "linear", "held_out": 0.2, "held_out_points": 5},
}

if __name__ == "__main__":
    results = [afbs.run(CONFIG, algorithm=name) for name in ("fedbuff", "fedstaleweight")]
    for result in results:
        print(result.record.name, result.fairness.tail(1).to_string(index=False), sep="\n")
    print(write([result.folder for result in results], "fairness.html"))
