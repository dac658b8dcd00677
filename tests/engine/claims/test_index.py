"""Which messages a claim has, by their ids."""

from __future__ import annotations

from collections.abc import Sequence

from quinque.engine.claims.rows import unpack
from tests.engine.claims.steps import Scene
from tests.engine.work.steps import add


class Unpacked:
    """Counts the lists of ids that were unpacked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, ids: bytes) -> Sequence[bytes]:
        self.count += 1
        found: Sequence[bytes] = unpack(ids)
        return found


def test_a_claim_that_grows_reads_the_ids_of_each_chunk_once(scene: Scene) -> None:
    ids = add(scene.queue, 40)
    unpacked = Unpacked()

    for at in range(20):
        claim = scene.fill(1, 2)
        assert claim.has(ids[2 * at + 1], unpacked)
        assert claim.has(ids[0], unpacked)
        assert not claim.has(b"other", unpacked)

    assert unpacked.count == 20


def test_a_chunk_that_takes_the_place_of_another_is_read_again(scene: Scene) -> None:
    ids = add(scene.queue, 4)
    scene.fill(1, 2)
    claim = scene.fill(1, 2)
    assert claim.has(ids[0], unpack)
    other = claim.take_out(1)
    assert other is not None
    assert not claim.has(ids[2], unpack)
    claim.take_out(0)
    other.place = 0

    claim.add(other)

    assert not claim.has(ids[0], unpack)
    assert claim.has(ids[2], unpack)
    assert claim.has(ids[3], unpack)
