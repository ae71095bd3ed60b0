"""Predicting a number: how far diabetes will have progressed in a year, from ten measurements of 442 patients.

    python examples/regression.py

The data come with scikit-learn. Labels that are floating numbers are what is to be predicted; partitions treat them in
tenths. `shift` and `scale` bring them to what networks learn best; what is measured stays in their own unit. The report
is about RMSE, where less is better.
"""

from __future__ import annotations

from sklearn.datasets import load_diabetes

import afbs
from afbs.report import write

if __name__ == "__main__":
    x, y = load_diabetes(return_X_y=True)
    result = afbs.run(
        {
            "name": "diabetes",
            "task": {"name": "regression", "shift": 152.0, "scale": 77.0, "unit": "points"},
            "model": {"name": "mlp", "hidden": 16},
            "algorithm": {"name": "fedbuff", "buffer_size": 4},
            "partition": {"name": "dirichlet", "clients": 20, "alpha": 1.0},
            "training": {"lr": 0.02, "epochs": 2, "batch_size": 16},
            "run": {"virtual_days": 1.0, "in_flight": 8},
            "evaluation": {"points": 20, "spacing": "linear", "target": 57.0},
        },
        data=(x, y),
    )
    print(result.history[["time", "rmse", "mae", "r2"]].tail(3))
    print(f"RMSE {result.best:.1f}; {write([result.folder], result.folder / 'report.html')}")
