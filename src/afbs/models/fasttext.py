"""FastText for classification (Joulin et al. 2016; arXiv 1607.01759): the mean of the n-grams' vectors, then linear.

A batch uses a few hundred of the tens of thousands of vectors. With `sparse`, a step touches only those; it adds a
word's gradients one by one instead of summing them first, so the last bits differ from `sparse = false`.
"""

from __future__ import annotations

from typing import Annotated, final

from annotated_types import Ge
from torch import Tensor, nn

from afbs.types import UserError


@final
class FastText(nn.Module):
    """The mean of word and bigram vectors, then one linear layer; the paper's network for text.

    `dimension`: How many numbers stand for a word.

    `sparse`: A step touches only the vectors of the batch's own words, which is faster and rounds differently.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        tokens: int,
        dimension: Annotated[int, Ge(1)] = 64,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        if tokens < 1:
            raise UserError(f"`model.name` = 'fasttext' needs text, got samples of {shape}.")
        self.embedding = nn.EmbeddingBag(tokens, dimension, mode="mean", padding_idx=0, sparse=sparse)
        self.head = nn.Linear(dimension, classes)
        for weight in (self.embedding.weight, self.head.weight):
            nn.init.uniform_(weight, -0.5, 0.5)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        # Rows are padded at the end, to the longest of the data set; a batch needs only its own longest.
        longest = max(1, int((x != 0).sum(1).max()))
        logits: Tensor = self.head(self.embedding(x[:, :longest]))
        return logits
