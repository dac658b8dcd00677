"""A process killed between two short writes leaves the rest of its batch as reserved: zeros."""

from __future__ import annotations

from quinque.stores.embedded.records import Batch, Damage, batch_header, read_batches


def test_a_batch_of_which_only_the_first_bytes_were_written_is_torn_at_any_byte() -> None:
    bodies = [b"first", b"second " * 100]
    first, second = (batch_header(body, 1, 0) + body for body in bodies)

    for written in range(1, len(second)):
        data = first + second[:written] + bytes(len(second) - written + 700)
        found = list(read_batches(data))

        assert isinstance(found[0], Batch)
        assert isinstance(found[1], Damage)
        assert found[1].is_torn, written
        assert found[1].at == len(first)
