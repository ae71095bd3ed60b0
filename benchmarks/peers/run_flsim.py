"""FLSim (`flsim` on PyPI): FedBuff, one process of one thread, with batches of tensors that are cut once.

The test set is evaluated once an epoch, which is 600 arrivals: its default, and about as often as afbs does.
"""

from __future__ import annotations

import dataclasses
import functools
from importlib import metadata
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from benchmarks.peers import common, network

PATCHES = [
    "its configuration classes are made hashable: Python 3.11 refuses an unhashable instance as a field's default",
    "our own IFLModel and metrics reporter: those of its examples import torchvision",
]
plain_dataclass = dataclasses.dataclass


def hashable_dataclass(cls: type | None = None, /, **given: Any) -> Any:
    if cls is None:
        return functools.partial(hashable_dataclass, **given)
    if cls.__module__.startswith("flsim."):
        given["unsafe_hash"] = True
    return plain_dataclass(cls, **given)


dataclasses.dataclass = hashable_dataclass

from flsim.clients.base_client import ClientConfig  # noqa: E402
from flsim.data.data_provider import FLDataProviderFromList  # noqa: E402
from flsim.interfaces.metrics_reporter import Channel  # noqa: E402
from flsim.interfaces.model import IFLModel  # noqa: E402
from flsim.metrics_reporter.tensorboard_metrics_reporter import FLMetricsReporter  # noqa: E402
from flsim.optimizers.async_aggregators import FedAvgWithLRFedBuffAggregatorConfig  # noqa: E402
from flsim.optimizers.local_optimizers import LocalOptimizerSGDConfig  # noqa: E402
from flsim.trainers.async_trainer import AsyncTrainer, AsyncTrainerConfig  # noqa: E402
from flsim.utils.async_trainer.training_event_generator import (  # noqa: E402
    AsyncTrainingEventGeneratorConfig,
    ConstantAsyncTrainingStartTimeDistrConfig,
)
from flsim.utils.simple_batch_metrics import FLBatchMetrics  # noqa: E402
from flsim.utils.timing.training_duration_distribution import PerUserUniformDurationDistributionConfig  # noqa: E402

dataclasses.dataclass = plain_dataclass

Batch = tuple[torch.Tensor, torch.Tensor]


class Model(IFLModel):
    """How FLSim asks for a network's loss."""

    def __init__(self) -> None:
        self._network = network.LeNet5()

    def fl_forward(self, batch: Batch) -> FLBatchMetrics:
        x, y = batch
        logits = self._network(x)
        loss = nn.functional.cross_entropy(logits, y)
        return FLBatchMetrics(loss=loss, num_examples=len(y), predictions=logits.detach(), targets=y, model_inputs=[])

    def fl_create_training_batch(self, **given: Any) -> Batch:
        return given["batch"]

    def fl_get_module(self) -> nn.Module:
        return self._network

    def fl_cuda(self) -> None:
        raise NotImplementedError

    @torch.no_grad()
    def get_eval_metrics(self, batch: Batch) -> FLBatchMetrics:
        return self.fl_forward(batch)

    def get_num_examples(self, batch: Batch) -> int:
        return len(batch[1])


class Reporter(FLMetricsReporter):
    """Accuracy."""

    def compute_scores(self) -> dict[str, float]:
        hits = sum(int((p.argmax(1) == t).sum()) for p, t in zip(self.predictions_list, self.targets_list, strict=True))
        return {"accuracy": hits / sum(self.num_examples_list)}

    def create_eval_metrics(self, scores: dict[str, float], total_loss: float, **given: Any) -> dict[str, float]:
        return scores

    def compare_metrics(self, eval_metrics: dict[str, float], best_metrics: dict[str, float]) -> bool:
        return eval_metrics["accuracy"] > best_metrics["accuracy"]


def batches(x: torch.Tensor, y: torch.Tensor, size: int) -> list[Batch]:
    return list(zip(x.split(size), y.split(size), strict=True))


def main() -> None:
    given = common.options(__doc__, 30, 10)
    work = common.Work.load(given.work)
    meter = common.Meter("flsim", "fedbuff", metadata.version("flsim"), PATCHES, given)

    class Counted(AsyncTrainer):
        def train_and_update_global_model(self, client: Any) -> None:
            super().train_and_update_global_model(client)
            meter.trained(client.client.dataset.num_train_examples() * common.EPOCHS)
            meter.arrived()

    model = Model()
    x, y = work.tensors("train")
    test = [batches(*work.tensors("test"), 512)]
    provider = FLDataProviderFromList(
        [batches(x[chosen], y[chosen], common.BATCH) for chosen in work.clients], test, test, model
    )
    mean = common.LONGEST / 2
    settings = AsyncTrainerConfig(
        epochs=1000,
        client=ClientConfig(epochs=common.EPOCHS, optimizer=LocalOptimizerSGDConfig(lr=common.LEARNING_RATE)),
        aggregator=FedAvgWithLRFedBuffAggregatorConfig(lr=1.0, buffer_size=common.BUFFER),
        # It has no bound on the jobs under way: at this rate there are as many on average.
        training_event_generator=AsyncTrainingEventGeneratorConfig(
            training_start_time_distribution=ConstantAsyncTrainingStartTimeDistrConfig(
                training_rate=common.IN_FLIGHT / mean
            ),
            duration_distribution_generator=PerUserUniformDurationDistributionConfig(
                training_duration_mean=mean, training_duration_sd=0.0, training_duration_min=0.0
            ),
        ),
    )
    trainer = Counted(model=model, cuda_enabled=False, **OmegaConf.structured(settings))
    trainer.train(provider, Reporter([Channel.STDOUT]), num_total_users=len(work.clients))


if __name__ == "__main__":
    main()
