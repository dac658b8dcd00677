"""`quinque top`: queues as they are, again and again; once; and for programs."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

from quinque.cli.queue_counts import Counts, QueueCounts
from quinque.cli.top import Watch, fitted
from quinque.model.families import JOBS
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.server.resp import Client
from tests.servers.patience import PATIENCE_S

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
    [told] = [row for row in look["queues"] if row.get("name") == queue]
    assert (told["leased"], told["in_rate"]) == (1, 0.0)
    assert look["leased"] >= 1


def test_where_there_is_little_room_names_are_cut_and_columns_left_out_and_numbers_are_whole() -> (
    None
):
    cells = {
        "name": ["queue", "a-queue-of-a-long-name"],
        "family": ["family", "jobs"],
        "ready": ["ready", "1,234,567"],
        "delayed": ["delayed", "0"],
        "done_rate": ["done/s", "0.0"],
    }

    assert fitted(cells, 80, "ready") == {
        "name": 22, "family": 6, "ready": 9, "delayed": 7, "done_rate": 6,
    }  # fmt: skip
    assert fitted(cells, 45, "ready") == {"name": 18, "family": 6, "ready": 9, "done_rate": 6}
    assert fitted(cells, 30, "delayed") == {"name": 10, "ready": 9, "delayed": 7}


def test_at_a_terminal_it_is_drawn_again_and_again_until_q(embedded_shell: Shell) -> None:
    shell, many = embedded_shell, b"one\n" * 1_000  # or queues of other tests would hide it
    shell.lines("message", "add", "drawn", "--lines", input=many)
    with Terminal("top", "--every", "20ms", QUINQUE_URL=shell.url) as terminal:
        terminal.wait_for("drawn")
        shell.lines("message", "add", "drawn.later", "--lines", input=many)
        terminal.wait_for("drawn.later")
        terminal.press("s")
        terminal.wait_for("q: quit, s: sort")
        terminal.press("q")
        assert terminal.end() == 0

    assert "\x1b[?1049l" in terminal.raw  # the screen is as it was before


def test_keys_are_heard_while_a_broker_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with Terminal("top", QUINQUE_URL=url) as terminal:
            asking, _ = silent.accept()
            with asking:
                terminal.press("q")
                assert terminal.end() == 0


def test_a_terminal_is_as_it_was_when_a_signal_ends_it(embedded_shell: Shell) -> None:
    with Terminal("top", "--every", "20ms", QUINQUE_URL=embedded_shell.url) as terminal:
        terminal.wait_for("q: quit, s: sort")
        terminal.process.terminate()
        assert terminal.end() == 143
        assert terminal.is_echoing

    assert "\x1b[?1049l" in terminal.raw
