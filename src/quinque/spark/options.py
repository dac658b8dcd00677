"""The options of the connector: one table, and what a reader or a writer is given of it.

Called by   source.py, when Spark asks for a reader or a writer; docs and tests read the table.
Calls       option_kinds.py, client/sync/broker.py.

An option that is wrong is refused here, on the driver, before anything is read or written. Spark
also hands over options that are meant for itself or for others; those are left alone, unless they
look like one of ours misspelt.

Not here: what an option does (stream.py, batch.py, log.py, sink.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from quinque.client.sync.broker import Broker
from quinque.model.families import BY_NAME, FAMILIES, TUBES, Family
from quinque.model.limits import NAME_MOST_BYTES, SPAN_MOST_MS
from quinque.model.states import State
from quinque.spark.option_kinds import (
    BOOLEAN,
    NAMES,
    POSITION,
    STATES,
    Kind,
    choice,
    number,
    size,
    span,
    text_of_most,
)

CLAIM: Final = "claim"  # readStream: each message to this query alone
PEEK: Final = "peek"  # read: look, change nothing
LOG: Final = "log"  # read and readStream: the lifecycle
WRITE: Final = "write"

_ALL: Final = (CLAIM, PEEK, LOG, WRITE)
_READS: Final = (CLAIM, PEEK, LOG)
# A task of a tube is for a session: it is neither claimed nor staged.
_FAMILIES: Final = tuple(family.name for family in FAMILIES if family is not TUBES)
_HOUR_MS: Final = 3_600_000


class BadOption(ValueError):
    """An option that is missing, wrong, or of no use here; the text is one sentence about it."""


class Option(NamedTuple):
    """`default` is as a user would write it, None when there is none."""

    name: str
    field: str
    kind: Kind
    default: str | None
    uses: tuple[str, ...]
    meaning: str


_TEXT: Final = text_of_most(4096)
_NAME: Final = text_of_most(NAME_MOST_BYTES)

OPTIONS: Final = (
    Option("url", "url", _TEXT, "redis://127.0.0.1:4777", _ALL,
           "the broker, or several: `redis://h1:4777,h2:4777`; `rediss://` for TLS, `unix://`"),
    Option("username", "username", _TEXT, None, _ALL, "the user, if not in `url`"),
    Option("password", "password", _TEXT, None, _ALL, "the password, if not in `url`"),
    Option("tlsCa", "ca", _TEXT, None, _ALL, "file of the authority that the broker must prove"),
    Option("tlsCertificate", "certificate", _TEXT, None, _ALL, "file of the client's certificate"),
    Option("tlsKey", "key", _TEXT, None, _ALL, "file of the certificate's key"),
    Option("timeout", "timeout_ms", span(100, _HOUR_MS), "30s", _ALL,
           "how long an answer may take"),
    Option("retries", "retries", number(0, 1000), "8", _ALL,
           "how often a request is repeated when the broker is gone, each after a longer wait"),
    Option("queue", "queues", NAMES, None, (CLAIM, PEEK, WRITE),
           "the queue; for reading also several, with commas between"),
    Option("queuePattern", "pattern", _NAME, None, (CLAIM, PEEK),
           "all queues whose names match: `clicks.*`; in a stream, new ones join"),
    Option("family", "family_name", choice(*_FAMILIES), None, (CLAIM, PEEK, WRITE),
           "the queues' family; without it `jobs`, and `events` where `group` is given"),
    Option("mode", "mode", choice(*_READS), None, _READS,
           "`claim`: each message to this query (streams); `peek`: look, change nothing (batch);"
           " `log`: the lifecycle of all messages (both)"),
    Option("subscription", "subscription", _NAME, None, (CLAIM,),
           "required: the name under which the broker keeps what this query has read"),
    Option("group", "group", _NAME, None, (CLAIM,),
           "the consumer group in `events`; without it the subscription's name"),
    Option("lease", "lease_ms", span(1_000, 24 * _HOUR_MS), "60s", (CLAIM,),
           "a query that the broker has not heard of for so long is shown as stalled"),
    Option("releaseAfter", "release_ms", span(0, SPAN_MOST_MS), "0", (CLAIM,),
           "after so long without a sign of the query its messages go back to the queue; 0: never"),
    Option("maxMessagesPerTrigger", "max_messages", number(1, 10_000_000), "100000", (CLAIM, LOG),
           "how many messages (in `log`: rows) a batch has at most"),
    Option("maxBytesPerTrigger", "max_bytes", size(1, 1 << 40), "256mb", (CLAIM,),
           "how many bytes of bodies a batch has at most, and what one request brings (4mb) more"),
    Option("minPartitions", "min_partitions", number(1, 100_000), "1", _READS,
           "into how many tasks a batch is divided at least, if it has that many chunks"),
    Option("maxRecordsPerPartition", "max_records", number(1, 10_000_000), "50000", _READS,
           "how many rows a task reads at most, to the nearest chunk of 1,000"),
    Option("pollWait", "poll_ms", span(0, 60_000), "200ms", (CLAIM,),
           "how long the broker waits for a message before it says that there is none"),
    Option("failOnDataLoss", "fails_on_loss", BOOLEAN, "true", (CLAIM, LOG, WRITE),
           "whether the query fails when what it is to read is not there any more"),
    Option("onPoison", "on_poison", choice("replay", "fail", "deadletter"), "replay", (CLAIM,),
           "what to do with a batch that was begun more than `maxReplays` times: again and again;"
           " fail with its name; or halve it down to one message, which goes to the dead"),
    Option("maxReplays", "max_replays", number(1, 1000), "3", (CLAIM,),
           "how often a batch is begun before `onPoison` holds"),
    Option("states", "states", STATES, "ready,delayed,dead", (PEEK,),
           "the states of messages to look at; in `events` there are none, and all are seen"),
    Option("startingOffset", "starting", POSITION, "earliest", (LOG,),
           'where a new query begins: `earliest`, `latest`, or rows by shard: `{"0": 17}`'),
    Option("endingOffset", "ending", POSITION, "latest", (LOG,),
           "where a batch read ends, likewise; that row is not read"),
    Option("sink", "sink", _NAME, None, (WRITE,),
           "the name under which the broker remembers what was published; without it the queue's"),
    Option("runId", "run", _NAME, None, (WRITE,),
           "for `df.write` in foreachBatch: with `batchId`, these rows are published once"),
    Option("batchId", "batch", number(0, 1 << 53), None, (WRITE,),
           "the batch's number, which grows from write to write of the run"),
    Option("ttl", "ttl_ms", span(0, SPAN_MOST_MS), "0", (WRITE,),
           "how long a message lives, where the row does not say; 0: as the family does"),
    Option("delay", "delay_ms", span(0, SPAN_MOST_MS), "0", (WRITE,),
           "after how long it is ready, where the row does not say"),
    Option("retry", "retry_ms", span(0, SPAN_MOST_MS), None, (WRITE,),
           "how long a lease runs, where the row does not say; without it as Disque does; 0: the"
           " message is delivered once at most"),
    Option("maxDeliveries", "max_deliveries", number(0, 1 << 31), "0", (WRITE,),
           "how often it is delivered before it is dead, where the row does not say; 0: the"
           " queue's limit"),
)  # fmt: skip

BY_LOWER_NAME: Final = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True)
class Options:
    """The options of one reader or writer: given, or the default. It goes to the executors."""

    url: str
    username: str | None
    password: str | None
    ca: str | None
    certificate: str | None
    key: str | None
    timeout_ms: int
    retries: int
    queues: tuple[str, ...] | None
    pattern: str | None
    family_name: str | None
    mode: str | None
    subscription: str | None
    group: str | None
    lease_ms: int
    release_ms: int
    max_messages: int
    max_bytes: int
    min_partitions: int
    max_records: int
    poll_ms: int
    fails_on_loss: bool
    on_poison: str
    max_replays: int
    states: tuple[State, ...]
    starting: str | dict[int, int]
    ending: str | dict[int, int]
    sink: str | None
    run: str | None
    batch: int | None
    ttl_ms: int
    delay_ms: int
    retry_ms: int | None
    max_deliveries: int

    def __repr__(self) -> str:
        """Never with a secret in it: readers end up in Spark's error texts."""
        return f"Options(url={self.shown_url!r}, queues={self.queues}, mode={self.mode!r})"

    @property
    def shown_url(self) -> str:
        return redacted(self.url)

    @property
    def family(self) -> Family:
        return BY_NAME[self.family_name or ("events" if self.group else "jobs")]

    def broker(self) -> Broker:
        """A new client of the broker, which connects when it is first used."""
        return Broker(
            self.url,
            username=self.username,
            password=self.password,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            timeout_s=self.timeout_ms / 1000,
            retries=self.retries,
        )


def read_options(given: Mapping[str, str], use: str) -> Options:
    """The options for that use. Raises BadOption."""
    known: dict[str, str] = {}
    for name, text in given.items():
        option = BY_LOWER_NAME.get(name.lower())
        if option is None:
            _refuse_if_misspelt(name)
        elif use not in option.uses:
            raise BadOption(f"option {option.name} is of no use here: it is for {_for(option)}")
        else:
            known[option.field] = text
    values = {option.field: _value(option, known.get(option.field)) for option in OPTIONS}
    options = Options(**values)
    _check(options, use)
    return options


def check_values(given: Mapping[str, str]) -> None:
    """Raises BadOption when one is wrong whatever it is for: as soon as `load` is called, when it
    is not known yet whether a batch or a stream is meant."""
    for name, text in given.items():
        option = BY_LOWER_NAME.get(name.lower())
        if option is None:
            _refuse_if_misspelt(name)
        else:
            _value(option, text)


def read_mode(given: Mapping[str, str], default: str) -> str:
    """What a reader is asked to do. Raises BadOption."""
    texts = {name.lower(): text for name, text in given.items()}
    mode = _value(BY_LOWER_NAME["mode"], texts.get("mode"))
    return default if mode is None else str(mode)


def redacted(url: str) -> str:
    """The url with `***` for a user and a password."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    shown = hosts if "@" not in parts.netloc else f"***@{hosts}"
    return f"{parts.scheme}://{shown}{parts.path}"


def _value(option: Option, given: str | None) -> Any:
    text = option.default if given is None else given
    if text is None:
        return None
    try:
        return option.kind.read(text)
    except (ValueError, KeyError):
        shown = "what was given" if option.name in ("password", "url") else repr(text)
        raise BadOption(f"option {option.name}: {shown} is not {option.kind.shape}") from None


def _check(options: Options, use: str) -> None:
    if use == CLAIM and options.subscription is None:
        raise BadOption(
            "option subscription is required: the broker keeps under this name what the query has"
            " read, and a query that goes on from the same checkpoint must give the same"
        )
    if use in (CLAIM, PEEK) and (options.queues is None) == (options.pattern is None):
        raise BadOption("give one of the options queue and queuePattern")
    if use == CLAIM and options.group is not None and not _is_feed(options):
        raise BadOption(f"option group: the family {options.family.name} has no groups")
    if use == CLAIM and 0 < options.release_ms < options.lease_ms:
        raise BadOption("option releaseAfter: it is 0, or not less than lease")
    if use == WRITE and options.queues is not None and len(options.queues) > 1:
        raise BadOption("option queue: a write has one; rows for others name theirs in a column")
    if use == WRITE and (options.run is None) != (options.batch is None):
        raise BadOption("options runId and batchId are given both or not at all")
    if urlsplit(options.url).scheme not in ("redis", "rediss", "unix"):
        raise BadOption("option url: it begins with redis://, rediss:// or unix://")


def _is_feed(options: Options) -> bool:
    return not options.family.is_worklist


def _refuse_if_misspelt(name: str) -> None:
    close = difflib.get_close_matches(name.lower(), BY_LOWER_NAME, n=1, cutoff=0.85)
    if close:
        raise BadOption(f"no option {name}; there is {BY_LOWER_NAME[close[0]].name}")


def _for(option: Option) -> str:
    words = {
        CLAIM: "streams that claim messages",
        PEEK: "mode=peek",
        LOG: "mode=log",
        WRITE: "writing",
    }
    return _listed(words[use] for use in option.uses)


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
