"""The arguments of a command as its usage line tells them."""

from __future__ import annotations

from quinque.server.commands.subcommands import with_subcommands
from quinque.server.commands.table import all_commands
from quinque.server.commands.usage import Argument, arguments_of, words_of

# Words that the usage asks for, and that are missed with another error than in other commands.
ODD = {"QACK", "QNOTIFY", "GETJOB", "RQ.RECOVER"}


def test_lower_case_words_are_arguments_and_a_queue_is_a_key() -> None:
    assert arguments_of("QACK queue group", "QACK") == [
        Argument("queue", "key"),
        Argument("group", "string"),
    ]


def test_brackets_and_dots_make_an_argument_optional_and_multiple() -> None:
    assert arguments_of("QREGISTER [queue ...]", "QREGISTER") == [
        Argument("queue", "key", is_optional=True, is_multiple=True)
    ]


def test_an_upper_case_word_is_a_token_and_takes_the_argument_after_it() -> None:
    assert arguments_of("QGET [EX seconds] [NOACK]", "QGET") == [
        Argument("seconds", "string", "EX", is_optional=True),
        Argument("noack", "pure-token", "NOACK", is_optional=True),
    ]


def test_several_words_in_a_bracket_are_a_block() -> None:
    (block,) = arguments_of("HELLO [protocol [AUTH username password]]", "HELLO")

    assert (block.kind, block.is_optional) == ("block", True)
    assert [argument.name for argument in block.arguments] == ["protocol", "username"]
    assert block.arguments[1].kind == "block"


def test_a_bar_parts_ways() -> None:
    (choice,) = arguments_of("CLIENT REPLY ON|OFF", "CLIENT|REPLY")

    assert choice == Argument(
        "on",
        "oneof",
        arguments=[Argument("on", "pure-token", "ON"), Argument("off", "pure-token", "OFF")],
    )


def test_a_token_in_brackets_takes_no_argument_after_them() -> None:
    assert arguments_of("RQ.INSPECT [PENDING] start", "RQ.INSPECT") == [
        Argument("pending", "pure-token", "PENDING", is_optional=True),
        Argument("start", "string"),
    ]


def test_the_words_of_a_usage_are_those_in_upper_case() -> None:
    assert words_of("QSTATUS [queue ...] [GROUPS group ...]", "QSTATUS") == ["GROUPS"]
    assert words_of("CLIENT REPLY ON|OFF", "CLIENT|REPLY") == ["ON", "OFF"]


def test_every_command_says_how_it_is_used_and_what_it_does() -> None:
    for row in with_subcommands(all_commands()):
        if row.run is None and row.parse is None:
            continue
        words = row.name.split("|")
        assert row.usage.split(" ")[: len(words)] == words
        assert row.summary.endswith("."), row.name
        arguments_of(row.usage, row.name)


def test_the_fewest_words_of_a_usage_are_the_arity_of_the_command() -> None:
    for row in with_subcommands(all_commands()):
        if row.run is None and row.parse is None:
            continue
        least = len(row.name.split("|")) + sum(map(_least, arguments_of(row.usage, row.name)))
        assert abs(row.arity) == least or row.name in ODD, row.name


def _least(argument: Argument) -> int:
    if argument.is_optional:
        return 0
    own = 1 if argument.token and argument.kind != "pure-token" else 0
    if argument.kind == "block":
        return own + sum(map(_least, argument.arguments))
    if argument.kind == "oneof":
        return own + min(map(_least, argument.arguments))
    return own + 1
