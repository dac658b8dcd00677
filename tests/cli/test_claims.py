"""`quinque claims`: which subscriptions there are, what they hold, and how one is dropped."""

from __future__ import annotations

from tests.cli.shell import Shell
from tests.server.resp import Client


def test_a_subscription_is_listed_shown_and_dropped(
    shell: Shell, client: Client, queue: str
) -> None:
    for number in range(3):
        client.call("ADDJOB", queue, f"job {number}", 0)
    assert shell.json("claims", "ls", queue) == []
    client.call("CLAIM.OPEN", queue, "lake")
    client.call("CLAIM.FILL", queue, "lake", 1, 1, "COUNT", 2)

    [listed] = shell.json("claims", "ls", queue)
    shown = shell.json("claims", "show", queue, "lake")

    assert (listed["subscription"], listed["claims"], listed["messages"]) == ("lake", 1, 2)
    assert (listed["backlog"], listed["stalled"]) == (1, False)
    assert [claim["state"] for claim in shown["claims"]] == ["filling"]
    assert "lake" in shell.lines("claims", "ls", queue)[1]
    assert "claimed" in shell.lines("queue", "ls", queue)[0]
    assert shell.json("queue", "ls", queue)[0]["claimed"] == 2
    assert shell.run("claims", "drop", queue, "lake").exit_code == 2
    assert shell.lines("claims", "drop", queue, "lake", "--yes") == [
        f"dropped subscription lake of {queue}; 2 messages returned"
    ]
    assert shell.json("queue", "ls", queue)[0]["ready"] == 3


def test_a_subscription_that_does_not_exist_is_nothing_found(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "one", 0)

    for words in (("show", queue, "none"), ("drop", queue, "none", "--yes")):
        result = shell.run("claims", *words)
        assert (result.exit_code, f"no subscription none of {queue}" in result.stderr) == (1, True)
