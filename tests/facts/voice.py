"""Wordings that make a text hard to read, and where the repository is searched for them.

Called by   test_voice.py; people: python -m tests.facts.voice FILE ...
Calls       repository.py.

    page          paragraphs, list items and rows of tables, without code and headings
    module        docstrings, all other strings of two words or more, and comments that are alone on
                  their lines
    other file    its comments

A rule sees a text in one line, with {} for code and for values that are put in.

Not here: the files that are searched, and what is allowed in them (test_voice.py).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.facts.repository import name

_BE = r"(?:is|are|was|were)"
_CODE = "{}"


def _first(word: str) -> str:
    """The word where a text, a sentence, a clause or a cell begins."""
    return rf"(?:^(?i:{word})|(?<=[.:;?!|] ){word.capitalize()})\b"


@dataclass(frozen=True)
class Rule:
    """A wording, the reason why it is not used, a text that has it, and the same text without."""

    name: str
    pattern: str
    reason: str
    bad: str
    good: str


RULES = (
    Rule(
        "vague-person",
        r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b",
        "The reader has to guess whether a client, a worker or the broker is meant.",
        "Messages that nobody holds are ready.",
        "Messages that no consumer holds are ready.",
    ),
    Rule(
        "who-clause",
        rf"{_first('who')}(?![^.|]*\?)|\b(?:{_BE}|for|to|by|than) who\b",
        "A clause that stands for a person hides the actor; name the client or the user.",
        "Who finds no job waits.",
        "A consumer that finds no job waits.",
    ),
    Rule(
        "what-clause",
        rf"{_first('what')} (?!if\b)[^.?!;:|,]*?\b(?:{_BE}|has|have|had|came|does)\b"
        rf"[^.?!;:|,]*? (?:{_BE}|has|goes|stays|comes|waits)\b(?![^.|]*\?)",
        "The sentence is about a message, a request or a setting; name it.",
        "What was added is on disk.",
        "A message that was added is on disk.",
    ),
    Rule(
        "what-start",
        r"^What(?:ever)?\b(?! (?:to|happens|you|differs)\b)(?![^.]*\?)",
        "A text that begins like this is half a riddle; begin with a verb or a noun.",
        "What the store says about the queue.",
        "Return the state of the queue.",
    ),
    Rule(
        "so-many",
        r"\b[Ss]o (?:many|much|long|often|few)\b(?! (?:that|as)\b)",
        "The reader has to find the number somewhere else; repeat the name of the parameter.",
        "Returns up to so many jobs.",
        "Returns up to `count` jobs, so many that it may block.",
    ),
    Rule(
        "is-so",
        rf"\b(?:{_BE}|told) so(?=[.,;:)]|$)",
        "The statement that it points at is in another sentence; repeat it.",
        "Returns for how many it was so.",
        "Returns how many jobs were queued.",
    ),
    Rule(
        "is-none",
        rf"(?<!here )\b(?:{_BE}|has|have|had) none\b|\bnone such\b",
        "What is missing is left to the reader; repeat the noun, or say that it is not valid.",
        "Empty if the queue has none.",
        "Empty if the queue has no key. If there is none, the reply is null.",
    ),
    Rule(
        "is-no",
        rf"(?<!here )\b{_BE} no (?!longer|more|less|later|earlier|older|newer|larger|smaller"
        r"|limit|different|better|worse|one\b)[a-z]+",
        "A negated noun is read twice; negate the verb.",
        "A name that is no text is refused.",
        "A name that is not text is refused; it is no longer a queue.",
    ),
    Rule(
        "double-negative",
        r"\bnothing but\b|\bnot any more\b|\b(?:or )?else not\b",
        "Say what is true: only, no longer, otherwise.",
        "It reads nothing but the header.",
        "It reads only the header.",
    ),
    Rule(
        "old-words",
        r"\banew\b|\bfor ever\b|\bvouch\w*|\b(?:to|can|cannot|could) be had\b|\bis had\b"
        r"|\bof no use\b|\bhear[sd]? of\b|\bwithout a thought\b|\bits like\b",
        "Readers who learn English do not know these words; there is a common one for each.",
        "The lease begins anew and is kept for ever.",
        "The lease starts again and is kept forever.",
    ),
    Rule(
        "told",
        rf"\b{_BE} (?:not )?told\b(?! to\b)|\btells? of\b"
        r"|\b(?:if|unless|when) (?:it is )?not said\b",
        "Programs get, show, report and return values; a default is called a default.",
        "The store is told of it; 30 if not said.",
        "The broker reports it to the store, and is told to stop. Default: 30.",
    ),
    Rule(
        "ours",
        r"(?<![#/\[])\bours\b|\b(?:commands?|words?|options?|settings?) of (?:our|their) own\b",
        "Say which project: a Quinque extension, a command of Disque.",
        "MATCH is ours.",
        "MATCH is a Quinque extension.",
    ),
    Rule(
        "in-hand",
        r"\bin (?:the |\w+'s |\w+s' )?hands?\b(?! with\b)|\bput aside\b|\bamong the dead\b",
        "A consumer holds a message; a message is moved to the dead queue, buried or removed.",
        "Messages in somebody's hands are put aside.",
        "Messages that a consumer holds are buried.",
    ),
    Rule(
        "of-first",
        rf"{_first('of')} (?:an?|each|several|all|these|those|very|which)\b",
        "The reader waits for the subject; put it first.",
        "Of each queue, the name is shown.",
        "The name of each queue is shown.",
    ),
    Rule(
        "one-that",
        rf"(?:{_first('one')}|{_first('those')}) (?:that|who|which|whose)\b",
        "The noun is in another sentence; repeat it.",
        "One that exists is not changed.",
        "An item that exists is not changed.",
    ),
    Rule(
        "dots",
        r"\|[^|]* · [^|]*\|",
        "A cell with several subjects cannot be searched or linked; give each a row.",
        "| `ack` · `nack` | done · given back |",
        "| `ack` | Removes the job. |",
    ),
)

PATTERNS = [(rule, re.compile(rule.pattern)) for rule in RULES]


class Text(NamedTuple):
    """A paragraph, a row or a string, and the line that it begins on."""

    line: int
    words: str


class Finding(NamedTuple):
    rule: str
    where: str
    words: str


def findings(path: Path, texts: Iterable[Text]) -> Iterator[Finding]:
    """Each match of a rule, with some words around it."""
    for line, words in texts:
        for rule, pattern in PATTERNS:
            for found in pattern.finditer(words):
                shown = words[max(0, found.start() - 30) : found.end() + 30]
                yield Finding(rule.name, f"{name(path)}:{line}", shown)


def texts_of(path: Path) -> Iterator[Text]:
    """All that people read of the file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return page_texts(source)
    if path.suffix == ".py":
        return module_texts(source)
    return comment_texts(source)


# -- pages ----------------------------------------------------------------------------------------

_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"<!--.*?-->|(?<=\])\([^)\s]*\)|https?://\S+", re.DOTALL)
_INLINE = re.compile(r"``[^`]+``|`[^`]+`")
_BEGINS = re.compile(r" *(?:[-*]|\d+\.) |\|")


def page_texts(source: str) -> Iterator[Text]:
    for pattern, instead in ((_FENCED, ""), (_SKIPPED, ""), (_INLINE, _CODE)):
        source = _without(pattern, source, instead)
    begun, lines = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        is_heading = line.startswith("#")
        if lines and (not line.strip() or is_heading or _BEGINS.match(line)):
            yield Text(begun, " ".join(lines))
            lines = []
        if line.strip() and not is_heading:
            begun = begun if lines else number
            lines.append(_BEGINS.sub("", line, count=1).strip() if line[0] != "|" else line)


def _without(pattern: re.Pattern[str], source: str, instead: str) -> str:
    """The source with matches replaced, and its lines where they were."""
    return pattern.sub(lambda found: instead + "\n" * found[0].count("\n"), source)


# -- modules and other files ----------------------------------------------------------------------


def module_texts(source: str) -> Iterator[Text]:
    yield from _module_comments(source)
    tree = ast.parse(source)
    seen: set[int] = set()
    strings: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            seen.add(id(node.value))
            if isinstance(node.value.value, str):
                yield from _paragraphs(node.value.lineno, node.value.value)
        elif isinstance(node, ast.JoinedStr):
            seen.update(map(id, node.values))
            strings.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append(node)
    for string in strings:
        if id(string) not in seen and " " in (words := _words(string)):
            yield Text(string.lineno, words)


def comment_texts(source: str) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), start=1):
        if line.lstrip().startswith("# "):
            yield Text(number, line.strip("# "))


def _module_comments(source: str) -> Iterator[Text]:
    """Comments of several lines are one text. A comment after code is a note, not a sentence."""
    begun, lines = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        text = line.strip()
        is_comment = text.startswith("# ") and not text.startswith("# --")
        if is_comment:
            begun = begun if lines else number
            lines.append(text.removeprefix("# "))
        elif lines:
            yield Text(begun, _INLINE.sub(_CODE, " ".join(lines)))
            lines = []


def _paragraphs(line: int, docstring: str) -> Iterator[Text]:
    for paragraph in re.split(r"\n[ ]*\n", docstring):
        words = " ".join(_INLINE.sub(_CODE, paragraph).split())
        if words:
            yield Text(line, words)
        line += paragraph.count("\n") + 2


def _words(string: ast.expr) -> str:
    if isinstance(string, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else _CODE for part in string.values
        ]
        return " ".join("".join(parts).split())
    assert isinstance(string, ast.Constant)
    return " ".join(str(string.value).split())


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        for finding in findings(file.resolve(), texts_of(file)):
            sys.stdout.write(f"{finding.where}: {finding.rule}: {finding.words}\n")
