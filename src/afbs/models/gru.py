"""A small recurrent network that scores the next token at every place of a row."""

from __future__ import annotations

from typing import Annotated, final

from annotated_types import Ge
from torch import Tensor, nn

from afbs.types import UserError


@final
class GRU(nn.Module):
    """Vectors of tokens, one gated recurrent layer, and a linear one; for `language_model`.

    `dimension`: Of a token's vector.

    `hidden`: How many numbers it remembers.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        tokens: int,
        dimension: Annotated[int, Ge(1)] = 32,
        hidden: Annotated[int, Ge(1)] = 96,
    ) -> None:
        super().__init__()
        if tokens < 1:
            raise UserError(f"`model.name` = 'gru' needs rows of tokens, got samples of {shape}.")
        self.embedding = nn.Embedding(tokens, dimension, padding_idx=0)
        self.memory = nn.GRU(dimension, hidden, batch_first=True)
        self.head = nn.Linear(hidden, tokens)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.memory(self.embedding(x))
        scores: Tensor = self.head(states)
        return scores
