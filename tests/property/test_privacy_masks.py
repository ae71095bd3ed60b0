"""Masks cancel for any clients, any vectors, and any that drop out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afbs.privacy._masking import agree, decode, encode, key_pair, mask, ring, unmask
from afbs.privacy.keys import derive


@given(st.integers(3, 12), st.integers(2, 12), st.integers(0, 2**32 - 1), st.data())
def test_the_unmasked_sum_is_the_sum_of_those_who_stayed(
    clients: int, neighbours: int, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.choice(10_000, clients, replace=False).tolist()
    values = {client: rng.normal(scale=100, size=5) for client in ids}
    keys = {client: key_pair(bytes([place]) * 32, "k") for place, client in enumerate(ids)}
    beside = ring(ids, neighbours, rng)
    seeds = {a: {b: derive(agree(keys[a][0], keys[b][1]), "sum") for b in beside[a]} for a in ids}
    owns = {client: derive(bytes([place]) * 32, "own") for place, client in enumerate(ids)}
    dropped = set(data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=clients - 1)))
    staying = [client for client in ids if client not in dropped]
    masked = [mask(client, encode(values[client]), owns[client], seeds[client]) for client in staying]
    orphaned = [(a, b, seeds[a][b]) for a in staying for b in beside[a] if b in dropped]
    total = unmask(np.sum(masked, axis=0, dtype=np.uint64), [owns[client] for client in staying], orphaned)
    assert np.allclose(decode(total), np.sum([values[client] for client in staying], axis=0), atol=1e-6)


@given(st.lists(st.floats(-1e8, 1e8), min_size=1, max_size=20))
def test_fixed_point_keeps_what_it_encodes(values: list[float]) -> None:
    assert np.allclose(decode(encode(np.array(values))), values, rtol=0, atol=2.0**-32)
