"""Items, prefixes and keys, without a Redis."""

from __future__ import annotations

import fnmatch
import re

import pytest

from quinque.errors import BadArgument
from quinque.workqueue import Item, KeyPrefix, WorkQueue
from quinque.workqueue.keys import Keys


def test_text_becomes_utf_8_and_bytes_stay() -> None:
    assert Item("é").data() == b"\xc3\xa9"
    assert Item(b"\xff").data() == b"\xff"
    assert Item(bytearray(b"x")).data() == b"x"


def test_an_item_without_an_id_gets_one_that_no_other_has() -> None:
    first, second = Item("x").id(), Item("x").id()

    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


@pytest.mark.parametrize(("id", "text"), [(7, "7"), ("", ""), (b"q", "q"), (b"\xff", "\udcff")])
def test_an_id_is_text(id: object, text: str) -> None:
    assert Item("x", id=id).id() == text


def test_an_item_is_a_dictionary() -> None:
    assert Item("x", id="1") == {"data": b"x", "id": "1"}
    assert Item.from_dict({"data": "x", "id": 1}) == Item("x", id="1")
    assert Item.parse('{"data": "x", "id": "1"}') == Item("x", id="1")
    with pytest.raises(KeyError):
        Item.from_dict({"id": "1"})


def test_json_goes_round() -> None:
    item = Item.from_json_data({"b": [1, 2]}, id="1")

    assert item == {"data": b'{"b":[1,2]}', "id": "1"}
    assert item.data_json() == {"b": [1, 2]}


def test_nothing_is_put_between_a_prefix_and_a_name() -> None:
    prefix = KeyPrefix("a")

    assert prefix.of("b") == "ab"
    assert KeyPrefix.concat(prefix, "b").of("c") == "abc"
    assert KeyPrefix.concat(prefix, "b").prefix == "ab"


def test_the_keys_are_the_documented_ones() -> None:
    keys = Keys(KeyPrefix("p"))

    assert keys.queue == b"p:queue"
    assert keys.processing == b"p:processing"
    assert keys.item == b"p:item:"
    assert keys.prefix == b"p:"


@pytest.mark.parametrize("prefix", ["a*", "a?b", "[ab]", "[^a]", "\\a", "a]"])
def test_the_pattern_for_items_finds_those_of_this_prefix_only(prefix: str) -> None:
    pattern = Keys(KeyPrefix(prefix)).items_pattern

    assert re.sub(rb"\\(.)", rb"\1", pattern) == prefix.encode() + b":item:*"
    unescaped = re.sub(rb"\\.", b"", pattern)
    assert not fnmatch.fnmatch("axb:item:1", unescaped.decode()) or b"*" not in unescaped[:-1]


@pytest.mark.parametrize(
    ("prefix", "has_tag"),
    [("{a}", True), ("x{a}y", True), ("{a}{", True), ("a", False), ("{}", False), ("{a", False)],
)
def test_a_tag_is_what_a_cluster_takes_for_one(prefix: str, has_tag: bool) -> None:
    assert Keys(KeyPrefix(prefix)).has_tag == has_tag


def test_a_setting_that_means_nothing_is_refused() -> None:
    with pytest.raises(BadArgument, match="writes is 'none' but must be one of new, old, both"):
        WorkQueue(KeyPrefix("p"), writes="none")  # type: ignore[arg-type]
