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
    assert [argument.name for argument in block.arguments] == ["protocol", "username_password"]
    assert (block.arguments[1].kind, block.arguments[1].token) == ("block", "AUTH")


def test_a_bar_parts_ways() -> None:
    (choice,) = arguments_of("CLIENT REPLY ON|OFF", "CLIENT|REPLY")

    assert choice == Argument(
        "on",
        "oneof",
        arguments=[Argument("on", "pure-token", "ON"), Argument("off", "pure-token", "OFF")],
    )


def test_a_word_before_several_ways_is_that_of_the_choice() -> None:
    (reply,) = arguments_of("JSCAN [REPLY id|all]", "JSCAN")
    (filters,) = arguments_of("LIST [FILTERBY MODULE module|ACLCAT category]", "LIST")
    (kick,) = arguments_of("TUBE.KICK [count|IDS id ...]", "TUBE.KICK")

    assert reply == Argument(
        "reply",
        "oneof",
        "REPLY",
        is_optional=True,
        arguments=[Argument("id", "string"), Argument("all", "string")],
    )
    assert (filters.kind, filters.token, filters.name) == ("oneof", "FILTERBY", "filterby")
    assert filters.arguments == [
        Argument("module", "string", "MODULE"),
        Argument("category", "string", "ACLCAT"),
    ]
    assert kick.token == ""
    assert kick.arguments == [
        Argument("count", "string"),
        Argument("id", "string", "IDS", is_multiple=True),
    ]


def test_a_word_before_several_arguments_in_a_bracket_is_that_of_the_block() -> None:
    (rate,) = arguments_of("QSET [RATE n s]", "QSET")
    (option,) = arguments_of("TUBE.PUT [OPTION name value] ...", "TUBE.PUT")

    n, s = Argument("n", "string"), Argument("s", "string")
    assert rate == Argument("n_s", "block", "RATE", is_optional=True, arguments=[n, s])
    assert (option.kind, option.token) == ("block", "OPTION")
    assert (option.is_optional, option.is_multiple, option.has_multiple_token) == (True,) * 3


def test_an_argument_may_be_named_once_or_twice_to_be_repeated() -> None:
    twice = arguments_of("WQ.X queue [STATE state [state ...]] id [id ...]", "WQ.X")

    assert twice == arguments_of("WQ.X queue [STATE state ...] id ...", "WQ.X")
    assert twice == [
        Argument("queue", "key"),
        Argument("state", "string", "STATE", is_optional=True, is_multiple=True),
        Argument("id", "string", is_multiple=True),
    ]


def test_several_that_are_repeated_together_are_a_block() -> None:
    (several,) = arguments_of("PARTS [part attempt ...]", "PARTS")
    (address, pairs) = arguments_of("KILL address|option value [option value ...]", "KILL")[
        0
    ].arguments

    assert (several.kind, several.is_optional, several.is_multiple) == ("block", True, True)
    assert address == Argument("address", "string")
    assert (pairs.kind, pairs.is_optional, pairs.is_multiple) == ("block", False, True)
    assert [argument.name for argument in pairs.arguments] == ["option", "value"]


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
