"""The options of the connector: what is refused, in which words, and that secrets stay secret."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from quinque.model.families import EVENTS, JOBS
from quinque.model.states import State
from quinque.spark.option_kinds import one_name
from quinque.spark.options import (
    CLAIM,
    LOG,
    OPTIONS,
    PEEK,
    WRITE,
    BadOption,
    Options,
    read_mode,
    read_options,
    redacted,
)

CLAIMS = {"queue": "clicks", "subscription": "report"}


def test_the_table_and_what_is_read_from_it_have_the_same_fields() -> None:
    assert [option.field for option in OPTIONS] == [f.name for f in dataclasses.fields(Options)]


def test_defaults_hold_where_nothing_is_given() -> None:
    options = read_options(CLAIMS, CLAIM)

    assert options.url == "redis://127.0.0.1:4777"
    assert options.queues == ("clicks",)
    assert options.family is JOBS
    assert (options.lease_ms, options.release_ms, options.poll_ms) == (60_000, 0, 200)
    assert options.fails_on_loss


def test_names_of_options_may_be_written_in_any_case() -> None:
    options = read_options({**CLAIMS, "MAXMESSAGESPERTRIGGER": "7"}, CLAIM)

    assert options.max_messages == 7


def test_several_queues_are_parted_by_commas() -> None:
    options = read_options({"queue": "a, b,c"}, PEEK)

    assert options.queues == ("a", "b", "c")


@pytest.mark.parametrize("name", ["plain", "a, b", " a", "[1]", "[", '["a"]', "a\udcffb"])
def test_the_name_of_one_queue_is_taken_as_it_is(name: str) -> None:
    text = one_name(name)

    assert read_options({"queue": text}, PEEK).queues == (name,)
    assert text.isascii()  # so that Spark can hand it over
    assert (text == name) == (name in ("plain", "[1]", "["))


def test_a_group_means_the_family_of_groups() -> None:
    assert read_options({**CLAIMS, "group": "g"}, CLAIM).family is EVENTS


@pytest.mark.parametrize(
    ("text", "span_ms"), [("250", 250), ("250ms", 250), ("2s", 2_000), ("1m", 60_000)]
)
def test_a_span_has_a_unit_or_is_in_milliseconds(text: str, span_ms: int) -> None:
    assert read_options({**CLAIMS, "pollWait": text}, CLAIM).poll_ms == span_ms


def test_a_size_has_a_unit_or_is_in_bytes() -> None:
    assert read_options({**CLAIMS, "maxBytesPerTrigger": "2MB"}, CLAIM).max_bytes == 2 << 20


def test_states_are_named() -> None:
    options = read_options({"queue": "q", "states": "dead, leased"}, PEEK)

    assert options.states == (State.DEAD, State.LEASED)


def test_a_position_is_a_word_or_rows_by_shard() -> None:
    assert read_options({"startingOffset": "latest"}, LOG).starting == "latest"
    assert read_options({"startingOffset": '{"0": 17}'}, LOG).starting == {0: 17}


@pytest.mark.parametrize(
    ("use", "given", "said"),
    [
        (CLAIM, {"queue": "q"}, "option subscription is required"),
        (CLAIM, {"subscription": "s"}, "set either the option queue or queuePattern"),
        (CLAIM, {**CLAIMS, "queuePattern": "*"}, "set either the option queue or queuePattern"),
        (CLAIM, {**CLAIMS, "maxMessagesPerTrigger": "0"}, "option maxMessagesPerTrigger: '0'"),
        (CLAIM, {**CLAIMS, "failOnDataLoss": "yes"}, "'yes' is not true or false"),
        (
            CLAIM,
            {**CLAIMS, "lease": "soon"},
            "option lease: 'soon' is not a duration from 1s to 1d",
        ),
        (
            CLAIM,
            {**CLAIMS, "releaseAfter": "1s"},
            "option releaseAfter must be 0 or at least lease",
        ),
        (CLAIM, {**CLAIMS, "keepFor": "1h"}, "option keepFor requires keepDir"),
        (CLAIM, {**CLAIMS, "onPoison": "x"}, "'x' is not replay or fail or deadletter"),
        (CLAIM, {**CLAIMS, "family": "tubes"}, "option family: 'tubes' is not events or jobs"),
        (CLAIM, {**CLAIMS, "family": "jobs", "group": "g"}, "the family jobs has no groups"),
        (
            CLAIM,
            {**CLAIMS, "states": "dead"},
            "option states has no effect here: it is for mode=pe",
        ),
        (CLAIM, {**CLAIMS, "maxMesagesPerTrigger": "1"}, "did you mean maxMessagesPerTrigger?"),
        (CLAIM, {**CLAIMS, "queue": "a,a"}, "option queue: 'a,a' is not one name"),
        (CLAIM, {**CLAIMS, "queue": '["a", 1]'}, "is not one name, several different names"),
        (CLAIM, {**CLAIMS, "queue": '["a", "a"]'}, "is not one name"),
        (CLAIM, {**CLAIMS, "url": "http://h"}, "option url must begin with redis://"),
        (PEEK, {"queue": "q", "states": "old"}, "'old' is not some of ready,delayed,leased,dead"),
        (PEEK, {"queue": "q", "subscription": "s"}, "option subscription has no effect here"),
        (LOG, {"startingOffset": "[1]"}, "is not earliest, latest or rows by shard"),
        (LOG, {"startingOffset": '{"0": true}'}, "is not earliest, latest or rows by shard"),
        (LOG, {"startingOffset": '{"0": -5}'}, "is not earliest, latest or rows by shard"),
        (
            LOG,
            {"maxMessagesPerTrigger": "1"},
            "option maxMessagesPerTrigger has no effect here: it is for a stream",
        ),
        (WRITE, {"queue": "a,b"}, "a write has one"),
        (WRITE, {"queue": "a", "runId": "r"}, "set both options runId and batchId"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(use: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption) as refusal:
        read_options(given, use)

    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("use", "given"),
    [(LOG, {"endingOffset": "latest"}), (WRITE, {"queue": "q", "runId": "r", "batchId": "1"})],
)
def test_a_stream_refuses_the_options_of_a_batch(use: str, given: dict[str, str]) -> None:
    read_options(given, use)
    with pytest.raises(BadOption, match="has no effect here: it is for a batch"):
        read_options(given, use, is_stream=True)


def test_options_of_others_are_left_alone() -> None:
    others = {"checkpointLocation": "/x", "path": "p", "header": "true"}

    assert read_options({**CLAIMS, **others}, CLAIM) == read_options(CLAIMS, CLAIM)


def test_the_mode_has_a_default_of_the_caller() -> None:
    assert read_mode({}, PEEK) == PEEK
    assert read_mode({"MODE": "Log"}, PEEK) == LOG
    with pytest.raises(BadOption):
        read_mode({"mode": "steal"}, PEEK)


def test_a_secret_is_not_shown() -> None:
    options = read_options(
        {**CLAIMS, "url": "rediss://me:hunter2@host:1/0", "password": "hunter2"}, CLAIM
    )

    assert "hunter2" not in repr(options)
    assert options.shown_url == "rediss://***@host:1/0"
    assert redacted("redis://h1:1,h2:2") == "redis://h1:1,h2:2"


def test_a_wrong_url_is_not_repeated() -> None:
    with pytest.raises(BadOption) as refusal:
        read_options({**CLAIMS, "url": "http://me:hunter2@host"}, CLAIM)

    assert "hunter2" not in str(refusal.value)


def test_options_can_be_sent_to_executors() -> None:
    options = read_options({**CLAIMS, "password": "p"}, CLAIM)

    again = pickle.loads(pickle.dumps(options))

    assert again == options
    assert again.family is JOBS
