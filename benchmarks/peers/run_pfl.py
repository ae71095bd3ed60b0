"""pfl-research (`pfl` on PyPI): FedAvg, one process of one thread, with its own in-memory data sets.

It has no asynchronous algorithm. The test set is evaluated every tenth round, as in its own CIFAR-10 benchmark.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from benchmarks.peers import common, network

FOREVER = 10**6


class Network(network.LeNet5):
    """pfl asks a network for its loss and its metrics."""

    def loss(self, x: torch.Tensor, y: torch.Tensor, is_eval: bool = False) -> torch.Tensor:
        self.train(not is_eval)
        return torch.nn.functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        self.eval()
        logits = self(x)
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
        correct = int((logits.argmax(1) == y).sum())
        return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(correct, len(y))}


class Counting(TrainingProcessCallback):
    """The last callback of a round."""

    def __init__(self, meter: common.Meter):
        self._meter = meter

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self._meter.arrived(common.IN_FLIGHT)
        return False, Metrics()


def main() -> None:
    given = common.options(__doc__, common.IN_FLIGHT, common.IN_FLIGHT)
    work = common.Work.load(given.work)
    meter = common.Meter("pfl", "fedavg", metadata.version("pfl"), [], given)
    x, y = work.tensors("train")
    users = {user: PyTorchTensorDataset((x[chosen], y[chosen])) for user, chosen in enumerate(work.clients)}

    def user_data(user: int) -> PyTorchTensorDataset:
        meter.trained(len(users[user]) * common.EPOCHS)
        return users[user]

    training = FederatedDataset(user_data, get_user_sampler("random", list(users)))
    network = Network()
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    evaluation = NNEvalHyperParams(local_batch_size=512)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=FOREVER,
            evaluation_frequency=FOREVER,
            train_cohort_size=common.IN_FLIGHT,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=training, val_data=training),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=common.BATCH, local_num_epochs=common.EPOCHS, local_learning_rate=common.LEARNING_RATE
        ),
        model_eval_params=evaluation,
        callbacks=[
            CentralEvaluationCallback(PyTorchTensorDataset(work.tensors("test")), evaluation, frequency=10),
            Counting(meter),
        ],
    )


if __name__ == "__main__":
    main()
