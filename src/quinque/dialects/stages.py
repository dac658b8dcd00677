"""The commands that add messages exactly once: STAGE.ADD STAGE.PUBLISH STAGE.DROP STAGE.LIST.

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py.

Not here: the format of a chunk of rows (model/stage_ops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.dialects.args import read_name
from quinque.dialects.claim_replies import GROUP
from quinque.dialects.command import Command, Session, no_queues, plain_reply
from quinque.dialects.listings import check_listing, seen_by
from quinque.dialects.options import (
    Options,
    read_any_queue,
    read_family,
    read_number,
    read_queue_of,
)
from quinque.errors import BadArgument
from quinque.model.families import BY_NAME, Family
from quinque.model.limits import COUNTS_MOST, PUBLISH_MOST
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Part,
    Publish,
    Published,
    Stage,
    Staged,
    StageView,
)
from quinque.wire.resp import Value


def parse_add(argv: list[bytes]) -> Stage:
    """STAGE.ADD family queue sink run number part attempt chunk rows [WRITER text]

    Stage a chunk of messages for the queue, as a part of batch number of the run of the sink. A new
    WRITER removes the chunks that an earlier one staged for the batch. Returns whether the batch is
    decided, and how many messages the attempt has staged.
    """
    family = read_family(argv[1])
    queue, batch = read_queue_of(family, argv[2]), _batch(argv[3:6])
    names = ("part", "attempt", "chunk")
    part, attempt, chunk = (
        read_number(what, text) for what, text in zip(names, argv[6:9], strict=True)
    )
    stage = Stage(family, queue, *batch, part, attempt, chunk, argv[9])
    options = Options("STAGE.ADD", argv, 10)
    for word in options:
        if word != b"WRITER":
            raise options.refused()
        stage.writer = read_name("WRITER", options.value())
    return stage


def reply_add(staged: Staged) -> Value:
    """[1 or 0, number]"""
    return [int(staged.is_decided), staged.messages]


def parse_publish(argv: list[bytes]) -> Publish:
    """STAGE.PUBLISH family queue sink run number [COUNT n] [KEEP ms] [CONTENT text]
    PARTS [part attempt chunks ...]

    Publish the batch that consists of these parts: up to COUNT more of its messages are added
    to the queue, each once, also if the request is repeated. Returns how many were added now
    and how many are left. Refused if the batch was published with another CONTENT.
    """
    family = read_family(argv[1])
    queue, batch = read_queue_of(family, argv[2]), _batch(argv[3:6])
    parts: list[Part] | None = None
    publish = Publish(family, queue, *batch, (), PUBLISH_MOST)
    options = Options("STAGE.PUBLISH", argv, 6)
    for word in options:
        match word:
            case b"COUNT":
                publish.count = options.number(least=1)
            case b"KEEP":
                publish.keep_ms = options.span_ms()
            case b"CONTENT":
                publish.content = read_name("CONTENT", options.value())
            case b"PARTS":
                parts = _parts(options.rest())
            case _:
                raise options.refused()
    if parts is None:
        raise BadArgument("STAGE.PUBLISH requires PARTS")
    publish.parts = parts
    return publish


def reply_publish(published: Published) -> Value:
    """[number, number]"""
    return [published.messages, published.left]


def parse_drop(argv: list[bytes]) -> DropStage:
    """STAGE.DROP queue sink run number

    Remove the staged messages of the batch, unless it is decided. If the queue belongs to another
    family by now, this also removes the rest of a decided batch. Returns the number of chunks.
    """
    return DropStage(read_any_queue(argv[1]), *_batch(argv[2:5]))


def parse_list(argv: list[bytes], session: Session) -> FindStages:
    """STAGE.LIST

    Return the batches that are staged or partly published. There may be 10000.
    """
    return FindStages(None, COUNTS_MOST, seen_by(session))


def reply_list(asked: FindStages, views: list[StageView], session: Session) -> Value:
    """A map for each batch whose queue the user may see."""
    check_listing(
        "all batches",
        len(views),
        [name for view in views for name in (view.queue, view.sink, view.run)],
        "publish or drop some of them with STAGE.PUBLISH and STAGE.DROP",
    )
    return [
        {
            "queue": view.queue,
            "sink": view.sink,
            "run": view.run,
            "number": view.number,
            "decided": int(view.is_decided),
            "chunks": view.chunks,
            "body-bytes": view.body_bytes,
            "age-ms": view.age_ms,
        }
        for view in views
        if session.sees(view.queue)
    ]


def _batch(words: list[bytes]) -> tuple[bytes, bytes, int]:
    """Return the sink, its run, and the number of the batch in the run."""
    sink, run, number = words
    return read_name("sink", sink), read_name("run", run), read_number("number", number)


def _parts(words: list[bytes]) -> list[Part]:
    if len(words) % 3:
        raise BadArgument(f"PARTS must be three numbers each, but {len(words)} values follow")
    numbers = [
        read_number(("part", "attempt", "chunks")[at % 3], text) for at, text in enumerate(words)
    ]
    parts = [Part(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
    seen: set[int] = set()
    for part in parts:
        if part.part in seen:
            raise BadArgument(f"part {part.part} is given twice")
        seen.add(part.part)
    return parts


def second_queue(argv: list[bytes]) -> Sequence[bytes]:
    """Return the second argument, which is the queue."""
    return argv[2:3]


def first_family(argv: list[bytes]) -> Family | None:
    """Return the first argument, which is the family."""
    return BY_NAME.get(argv[1].lower().decode("latin-1"))


def _family_of_batch(argv: list[bytes]) -> FindStages:
    """Return the operation that finds the family of the batch."""
    drop = parse_drop(argv)
    return FindStages((drop.queue, drop.sink, drop.run, drop.number))


COMMANDS: Final = [
    Command(
        "STAGE.ADD",
        GROUP,
        "write",
        -10,
        parse_add,
        reply_add,
        queues=second_queue,
        family=first_family,
    ),
    Command(
        "STAGE.PUBLISH",
        GROUP,
        "write",
        -7,
        parse_publish,
        reply_publish,
        queues=second_queue,
        family=first_family,
    ),
    Command("STAGE.DROP", GROUP, "write", 5, parse_drop, plain_reply, family=_family_of_batch),
    Command(
        "STAGE.LIST",
        GROUP,
        "read",
        1,
        parse_list,
        reply_list,
        queues=no_queues,
        with_session=True,
    ),
]
