"""The base of algorithms that step along a weighted mean: nothing to apply, and the server's optimiser for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import afbs
from afbs.testing import check_algorithm


@dataclass(frozen=True)
class LargerHalf(afbs.Averaging[tuple[afbs.Update, ...]]):
    """Of four updates, the two with the most data, weighed by it."""

    size: int = 4

    def init(self, clients: Sequence[afbs.ClientInfo]) -> tuple[afbs.Update, ...]:
        return ()

    def receive(
        self, state: tuple[afbs.Update, ...], update: afbs.Update, key: afbs.Key
    ) -> tuple[tuple[afbs.Update, ...], afbs.Step | None]:
        buffer = tuple(sorted((*state, update), key=lambda one: -one.examples))
        return ((), afbs.Step(buffer[:2], buffer[2:])) if len(buffer) == self.size else (buffer, None)

    def stalled(self, state: tuple[afbs.Update, ...]) -> tuple[tuple[afbs.Update, ...], afbs.Step | None]:
        return (), afbs.Step(state) if state else None

    def weigh(self, used: Sequence[afbs.Update]) -> tuple[float, ...]:
        total = sum(update.examples for update in used)
        return tuple(update.examples / total for update in used)


def test_an_algorithm_without_an_apply_passes_the_battery_with_every_optimiser() -> None:
    for rule in ("sgd", "momentum", "adam", "yogi"):
        check_algorithm(LargerHalf(server=rule, server_lr=0.1))


def test_momentum_is_that_of_the_equation_worked_by_hand() -> None:
    algorithm = LargerHalf(server="momentum", server_momentum=0.5, server_lr=2.0)
    params = np.array([1.0, 2.0], np.float32)
    step = afbs.Step((), weights=(0.25, 0.75))
    memory = algorithm.begin(params)
    # Δ = 0.25·(4, 0) + 0.75·(0, 4) = (1, 3): m = Δ, w = (1, 2) − 2·(1, 3)
    memory, params = algorithm.apply(memory, params, step, np.array([[4, 0], [0, 4]], np.float32))
    np.testing.assert_array_equal(params, [-1, -4])
    # Δ = 0: m = (0.5, 1.5), w = (−1, −4) − (1, 3)
    _, params = algorithm.apply(memory, params, step, np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(params, [-2, -7])


def test_its_own_settings_come_first_and_those_of_the_server_by_name_only() -> None:
    assert LargerHalf(6, server_lr=0.5).size == 6
