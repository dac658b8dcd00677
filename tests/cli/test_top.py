"""`quinque top`: queues as they are, again and again; once; and for programs."""

from __future__ import annotations

import json
from dataclasses import replace

from quinque.cli.queue_counts import Counts, QueueCounts
from quinque.cli.top import Watch
from quinque.model.families import JOBS
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.server.resp import Client

MAIL = QueueCounts(
    b"mail", JOBS, ready=5, leased=0, delayed=0, dead=0, claimed=0, kept=5, oldest_s=1.5,
    added=100, delivered=40, acked=30, returned=0, died=0, expired=0, removed=0, groups=[],
)  # fmt: skip


def test_a_rate_is_what_happened_since_the_look_before() -> None:
    looks = [
        Counts([MAIL], 0),
        Counts([replace(MAIL, added=110, delivered=60), replace(MAIL, name=b"new", added=4)], 0),
        Counts([replace(MAIL, added=3, delivered=0)], 2),
    ]
    watch = Watch(lambda: looks.pop(0), iter([10.0, 12.0, 13.0]).__next__)

    first, second, third = (watch.look("name") for _ in range(3))

    assert first.rows[0]["in_rate"] is None
    rates = [(row["in_rate"], row["out_rate"], row["done_rate"]) for row in second.rows]
    assert rates == [(5.0, 10.0, 0.0), (2.0, 20.0, 15.0)]
    assert (third.rows[0]["in_rate"], third.left_out) == (0.0, 2)


def test_one_look_tells_depths_and_rates_of_every_queue(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("RQ.PUSH", queue, "one", "two")
    client.call("RQ.POP", queue)

    head, *lines = shell.lines("top", "--once", "--every", "10ms")
    [row] = [line.split() for line in lines if line.startswith(queue)]
    assert head.split()[:3] == ["queue", "family", "ready"]
    assert head.split()[-3:] == ["in/s", "out/s", "done/s"]
    assert row[1:6] == ["reliable", "1", "1", "0", "0"]

    look = json.loads(shell.run("top", "--once", "--every", "10ms", "--json").stdout)
    [told] = [row for row in look["queues"] if row["name"] == queue]
    assert (told["leased"], told["in_rate"]) == (1, 0.0)
    assert look["leased"] >= 1


def test_at_a_terminal_it_is_drawn_again_and_again_until_q(embedded_shell: Shell) -> None:
    shell = embedded_shell
    shell.lines("message", "add", "drawn", "one")
    with Terminal("top", "--every", "20ms", QUINQUE_URL=shell.url) as terminal:
        terminal.wait_for("drawn")
        shell.lines("message", "add", "drawn.later", "one")
        terminal.wait_for("drawn.later")
        terminal.press("s")
        terminal.wait_for("drawn")
        terminal.press("q")
        assert terminal.end() == 0

    assert "\x1b[?1049l" in terminal.raw  # the screen is as it was before
