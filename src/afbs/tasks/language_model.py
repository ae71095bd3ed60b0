"""Which token comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Any, final

from afbs.interfaces import Task
from afbs.metrics import ACCURACY, LOSS, Metric
from afbs.types import Dataset, UserError

_PADDING = 0


@final
@dataclass(frozen=True)
class LanguageModel(Task):
    """The next token of each row of tokens, by cross-entropy: perplexity, and how often it is the likeliest.

    The network is given all tokens of a row but the last, and scores what follows each. Padding (0) does not count;
    labels only say which rows are alike.
    """

    @property
    def metrics(self) -> Sequence[Metric]:
        return (Metric("perplexity", "less"), LOSS, ACCURACY)

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        from torch.nn.functional import cross_entropy

        return cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten(), ignore_index=_PADDING)

    def measure(self, model: Any, x: Any, y: Any) -> Mapping[str, Any]:
        from torch.nn.functional import cross_entropy

        scores, following = model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()
        there = following != _PADDING
        scores, following = scores[there], following[there]
        return {
            "loss": cross_entropy(scores, following, reduction="none"),
            "accuracy": scores.nan_to_num().argmax(1) == following,
        }

    def score(self, means: Mapping[str, float]) -> Mapping[str, float]:
        loss = means["loss"]
        return {"perplexity": exp(loss) if loss < 700 else inf, "loss": loss, "accuracy": means["accuracy"]}

    def sizes(self, dataset: Dataset) -> tuple[tuple[int, ...], int]:
        return (dataset.train_x.shape[1] - 1,), dataset.tokens

    def check(self, dataset: Dataset) -> None:
        if not dataset.tokens or dataset.train_x.ndim != 2 or dataset.train_x.shape[1] < 2:
            shape = dataset.train_x.shape[1:]
            raise UserError(
                f"`task.name` = 'language_model' needs rows of two tokens or more, and samples are "
                f"{'tokens' if dataset.tokens else 'numbers'} of shape {tuple(shape)}. `data.name` = 'characters' has "
                "such rows."
            )

    def fits(self, model: Any, x: Any, y: Any, outputs: int) -> None:
        found, wanted = model(x[:, :-1]), (len(x), x.shape[1] - 1, outputs)
        shape = tuple(found.shape) if hasattr(found, "shape") else type(found).__name__
        if shape != wanted:
            raise UserError(f"`model` must score every token at every place: {wanted} for {len(x)} rows, got {shape}.")
