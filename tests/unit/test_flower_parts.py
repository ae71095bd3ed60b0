"""The small parts of the Flower transport: messages, the rule for uploads, what waits on a node's disk, keys."""

from __future__ import annotations

import json
import os
import re
import ssl
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

import afbs
from afbs.apps.keys import make_certificates, make_node_key
from afbs.apps.project import write_project
from afbs.transports.flower import Flower, messages
from afbs.transports.flower.messages import BadMessageError
from afbs.transports.flower.shelf import Shelf
from afbs.transports.flower.uploads import Uploads
from afbs.types import Order, UserError

EXPERIMENT = "0123456789abcdef"
ROOM = (10**9, 10**9)
EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-mnist"


def vector(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def test_an_order_comes_out_of_its_message_as_it_went_in() -> None:
    order = Order(7, 3, 2, 41, 12.5, 0.1, 0, 4)
    job = messages.Job(EXPERIMENT, order, True, -1, [3, 9], 10, 1000, 60.0)
    content = messages.job(job, messages.packed(vector(1, 2, 3)))
    assert messages.job_of(content) == job
    np.testing.assert_array_equal(messages.vector_of(content, 3), vector(1, 2, 3))


@pytest.mark.parametrize("name", ["../../etc", "0123456789ABCDEF", "", "0123456789abcdef0"])
def test_an_experiment_cannot_name_a_file_elsewhere(name: str) -> None:
    with pytest.raises(BadMessageError, match="16 hexadecimal digits"):
        messages.fetch_of(messages.fetch(name, 1))


@pytest.mark.parametrize("order", [-1, 2**60, 1.0, True, "1"])
def test_a_number_of_another_kind_or_range_is_refused(order: object) -> None:
    content = RecordDict({"afbs": ConfigRecord({"experiment": EXPERIMENT, "order": order})})  # type: ignore[dict-item]
    with pytest.raises(BadMessageError, match="`order`"):
        messages.fetch_of(content)


def test_eager_always_uploads_and_on_demand_never() -> None:
    assert all(Uploads("eager").now() for _ in range(20))
    assert not any(Uploads("on_demand").now() for _ in range(20))


def measured(drops: float, upload: float, fetch: float) -> Uploads:
    """`auto` after it has seen a fleet with these figures."""
    found = Uploads("auto")
    for number in range(200):
        found.settled(dropped=(number * drops) % 1.0 >= 1.0 - drops)
        found.arrived(uploaded=True, seconds=5.0 + upload)
        found.arrived(uploaded=False, seconds=5.0)
        found.fetched(fetch)
    return found


@pytest.mark.parametrize(
    ("drops", "upload", "fetch", "waits"),
    [(0.5, 10.0, 3.0, True), (0.5, 1.0, 3.0, False), (0.0, 100.0, 1.0, False), (0.9, 1.0, 3.0, True)],
)
def test_auto_waits_where_sparing_drops_outweighs_fetching(
    drops: float, upload: float, fetch: float, waits: bool
) -> None:
    """P(dropped) × upload > P(used) × fetch: 0.5 × 10 > 0.5 × 3, and so on."""
    auto = measured(drops, upload, fetch)
    assert auto.waiting_pays() is waits
    eager = [auto.now() for _ in range(8 + 160)][8:]
    assert (sum(eager) > 80) is not waits
    assert 0 < sum(eager) < 160  # the other way is tried once in a while


def test_what_auto_measured_is_recalled_from_the_record() -> None:
    known, fresh = measured(0.5, 10.0, 3.0), Uploads("auto")
    chosen = [known.now() for _ in range(30)]
    fresh.recall(json.loads(json.dumps(known.measured())))
    assert fresh == known
    assert [fresh.now() for _ in range(16)] == [known.now() for _ in range(16)]
    assert chosen[:8] == [True, False] * 4


def test_a_vector_waits_on_the_shelf_until_it_is_let_go(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(EXPERIMENT, 4, vector(1, 2), {"steps": 3}, ROOM)
    shelf.put(EXPERIMENT, 5, vector(3, 4), {"steps": 3}, ROOM)
    assert Shelf(tmp_path).held(EXPERIMENT) == [4, 5]
    found = Shelf(tmp_path).get(EXPERIMENT, 4)
    assert found is not None
    np.testing.assert_array_equal(found[0], vector(1, 2))
    assert found[1] == {"steps": 3}
    shelf.let_go(EXPERIMENT, [4, 77])
    assert shelf.held(EXPERIMENT) == [5]


def test_a_damaged_vector_is_as_good_as_none(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(EXPERIMENT, 4, vector(1, 2), {}, ROOM)
    (tmp_path / EXPERIMENT / "order-4.st").write_bytes(b"torn")
    assert shelf.get(EXPERIMENT, 4) is None


def test_what_is_too_old_or_too_much_goes_oldest_first(tmp_path: Path) -> None:
    shelf, then = Shelf(tmp_path), time.time() - 10_000
    for order in range(4):
        shelf.put(EXPERIMENT, order, np.zeros(1000, np.float32), {}, ROOM)
        os.utime(tmp_path / EXPERIMENT / f"order-{order}.st", (then + order, then + order))
    shelf.put(EXPERIMENT, 4, np.zeros(1000, np.float32), {}, (13_000, 10**12))  # room for three of about 4,100 bytes
    assert shelf.held(EXPERIMENT) == [2, 3, 4]
    shelf.put(EXPERIMENT, 5, np.zeros(1000, np.float32), {}, (10**9, 3600.0))
    assert shelf.held(EXPERIMENT) == [4, 5]


def test_a_node_is_the_same_as_long_as_its_disk_is(tmp_path: Path) -> None:
    assert Shelf(tmp_path / "a").token == Shelf(tmp_path / "a").token
    assert Shelf(tmp_path / "a").token != Shelf(tmp_path / "b").token
    assert stat.S_IMODE((tmp_path / "a" / "identity").stat().st_mode) == 0o600


def test_states_before_the_one_in_use_are_not_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for order in (2, 5, 9):
        shelf.put_state(EXPERIMENT, order, vector(order))
    np.testing.assert_array_equal(shelf.state(EXPERIMENT, 5, 1), vector(5))
    np.testing.assert_array_equal(shelf.state(EXPERIMENT, -1, 1), vector(0))
    assert sorted(path.name for path in (tmp_path / EXPERIMENT).glob("state-*")) == ["state-5.st", "state-9.st"]
    with pytest.raises(UserError, match="order 2 is not on its disk"):
        shelf.state(EXPERIMENT, 2, 1)


def test_what_was_remembered_in_another_experiment_goes_once_it_is_too_old(tmp_path: Path) -> None:
    shelf, other = Shelf(tmp_path), "f" * 16
    for experiment in (EXPERIMENT, other):
        shelf.put_state(experiment, 1, vector(1))
        os.utime(tmp_path / experiment / "state-1.st", (0, 0))
    shelf.put_state(other, 2, vector(2))
    shelf.put(EXPERIMENT, 3, vector(3), {}, (10**6, 60.0))
    kept = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/state-*.st")}
    assert kept == {f"{EXPERIMENT}/state-1.st", f"{other}/state-2.st"}


def test_certificates_are_good_for_this_machine_and_keys_for_their_owner_alone(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    make_node_key(tmp_path / "node.key")
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    assert context.get_ca_certs()[0]["issuer"] == ((("commonName", "afbs fleet"),),)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    for name in ("server.key", "node.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert (tmp_path / "node.key.pub").read_bytes().startswith(b"ecdsa-sha2-nistp384 ")


def test_a_fleet_is_not_reached_by_the_commands_for_simulations() -> None:
    with pytest.raises(UserError, match="flwr run"):
        Flower().connect(None)  # type: ignore[arg-type]


def test_the_example_is_what_a_new_project_is(tmp_path: Path) -> None:
    folder = tmp_path / "flower-mnist"
    written = write_project(folder, "afbs")
    for path in written:
        ours = (EXAMPLE / path).read_text(encoding="utf-8")
        assert ours == (folder / path).read_text(encoding="utf-8").replace(str(folder), "examples/flower-mnist"), path
    assert {path.suffix for path in written} == {".py", ".toml", ".md"}


@pytest.mark.parametrize("name", ["2fast", "with space", "a/../b c"])
def test_a_project_needs_a_name_that_can_be_a_module(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name has letters"):
        write_project(tmp_path / name)


def test_only_what_flower_calls_public_is_imported() -> None:
    """Whatever else Flower has inside may move with any of its versions."""
    package = Path(afbs.__file__).parent
    found = {
        name
        for path in package.rglob("*.py")
        for name in re.findall(r"^\s*(?:from|import) (flwr[\w.]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == {"flwr.app", "flwr.clientapp", "flwr.serverapp"}
