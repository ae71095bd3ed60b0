"""A small language model: which character comes next, in a text of six voices that comes with the package.

    python examples/language_model.py

The text, `src/afbs/data/harbour.txt`, was written for this. Most of a client's rows are of one or two voices. The
report is about perplexity, where less is better: a network that knows nothing has 49, as many as there are characters.
"""

from __future__ import annotations

import afbs
from afbs.report import write

CONFIG = {
    "name": "harbour",
    "task": {"name": "language_model"},
    "data": {"name": "characters", "length": 32},
    "model": {"name": "gru", "hidden": 64},
    "algorithm": {"name": "fedbuff", "buffer_size": 4},
    "partition": {"name": "dirichlet", "clients": 12, "alpha": 0.3},
    "training": {"optimizer": "adam", "lr": 0.01, "epochs": 2, "batch_size": 16},
    "run": {"virtual_days": 0.6, "in_flight": 8},
    "evaluation": {"points": 12, "spacing": "linear", "target": 10.0},
}

if __name__ == "__main__":
    result = afbs.run(CONFIG)
    print(result.history[["time", "perplexity", "accuracy"]].tail(3))
    print(f"Perplexity {result.best:.2f}; {write([result.folder], result.folder / 'report.html')}")
