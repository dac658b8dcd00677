"""Scripts are put together so that all they use is there, and little is made in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quinque.stores.redis.script_texts import FOLDER, script_text

SCRIPTS = sorted(FOLDER.glob("*.lua"))
# Of Lua, and of Redis.
GIVEN = {
    *("and", "assert", "elseif", "error", "for", "function", "if", "in", "ipairs", "next", "not"),
    *("or", "pairs", "pcall", "return", "select", "tonumber", "tostring", "type", "unpack"),
    *("until", "while"),
}
MADE_LATER = re.compile(
    r"^(\w+) = function\(\.\.\.\)\n(.*?)\nreturn \1\(\.\.\.\)\nend$", re.DOTALL | re.MULTILINE
)


def test_what_is_included_rarely_is_made_when_it_is_called_and_shares_what_is_kept() -> None:
    text = code_of(FOLDER / "add.lua")
    later = {found[1]: found[2] for found in MADE_LATER.finditer(text)}
    at_once = MADE_LATER.sub("", text)

    assert "local function work_settle(" in later["work_settle"]
    assert "local function work_load(" in later["work_settle"]
    assert "local function work_load(" not in at_once
    assert at_once.index("local work_settle\n") < at_once.index("local function work_find(")
    # There is one of each of these, or what one part of the script notes another would not know.
    for variable in ("opened", "ready_names", "recorded", "kept_time_ms"):
        assert len(re.findall(rf"^local {variable}\b", text, re.MULTILINE)) == 1, variable


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_function_that_a_script_calls_is_there_before_it_is_called(path: Path) -> None:
    text = code_of(path)
    later = [found[2] for found in MADE_LATER.finditer(text)]
    at_once = MADE_LATER.sub("", text)

    assert unknown_in(at_once, set()) == set()
    constants = set(re.findall(r"\b[A-Z][A-Z_]+[A-Z]\b", text)) - {"KEYS", "ARGV"}
    listed = re.findall(r"^ *local ([A-Z_, ]+) = ", text, re.MULTILINE)
    assert constants <= {name for names in listed for name in names.split(", ")}
    for part in later:
        assert unknown_in(part, functions_of(at_once)) == set()


def code_of(path: Path) -> str:
    """The text without what is quoted and comments."""
    return re.sub(r"'[^'\n]*'|--[^\n]*", "", script_text(path))


def functions_of(text: str) -> set[str]:
    found = re.findall(r"^local function (\w+)|^local (\w+)$", text, re.MULTILINE)
    return {made or declared for made, declared in found}


def unknown_in(text: str, known: set[str]) -> set[str]:
    """What is called before it is there."""
    known = known | GIVEN
    unknown = set()
    words = re.compile(
        r"function (\w*)\(([^)]*)\)|^local (\w+)$|local ([\w, ]+?) ?=|(?<![\w.:])(\w+)\(",
        re.MULTILINE,
    )
    for made, parameters, declared, assigned, called in words.findall(text):
        known |= {made, declared, *re.findall(r"\w+", f"{parameters} {assigned}")}
        if called and called not in known:
            unknown.add(called)
    return unknown
