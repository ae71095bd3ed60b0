"""A training function of your own: plain PyTorch, no base class.

    python examples/own_training.py

It is given the network, the client's samples as a torch Dataset, and an order: `rate`, `epochs` (or `steps`),
`batch_size`, `seed`, `client`, `version`. It changes the network; what it returns is in the record, and in
`result.told`. The same function is what a deployed client runs: `afbs.apps.client_app(config, train=train)`. From a
configuration it is `[training] function = "own_training:train"`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import afbs
from afbs.report import write


def train(model: nn.Module, data: Dataset[Any], order: Any) -> dict[str, float]:
    """Label smoothing, and a rate that warms up: what `[training]` has no setting for."""
    loader = DataLoader(data, order.batch_size, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=order.rate, momentum=0.9)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=len(loader))
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses = []
    for _ in range(order.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            warmup.step()
            losses.append(loss.item())
    return {"first_loss": losses[0], "last_loss": losses[-1], "steps": len(losses)}


if __name__ == "__main__":
    result = afbs.run(
        {
            "name": "own-training",
            "data": {"name": "digits"},
            "model": {"name": "mlp"},
            "partition": {"clients": 30, "clusters": 2},
            "training": {"lr": 0.05, "function": train},
            "run": {"virtual_days": 0.5, "in_flight": 12},
            "evaluation": {"points": 10, "spacing": "linear"},
        }
    )
    print(result.told.groupby("version").mean().tail())
    print(f"{result.best:.1%}; {write([result.folder], result.folder / 'report.html')}")
