"""The users and their permissions.

Called by   cli/serve.py at the start, the dispatcher on AUTH and HELLO and before each command,
            tarantool_requests.py likewise.
Calls       config_sources.py to read the users file, glob.py for queue patterns.

    [users.alice]
    password = "open sesame"          or password-sha256 = "<64 hex digits>"
    families = ["events"]             default: all
    commands = ["QADD", "QSTATUS"]    default: all; "-QFLUSH" takes one away
    queues = ["orders.*"]             default: all; '\\xNN' is any byte
    rights = ["read", "write"]        the default; "admin" is the third

The right `admin` applies to the whole broker: such a user sees every request and can change every
setting and password. So a user cannot have it together with `queues` or `families`. `commands` can
limit it.

A new connection starts as the user `default`, if that user needs no password:

    requirepass   users     [users.default]      a new connection …
    -             none      -                    is `default`, who may do everything
    set           any       any                  must AUTH; requirepass is default's password
    -             some      none                 must AUTH as a named user; there is no `default`
    -             some      without password     is `default`, with the rights of that table
    -             some      with password        must AUTH

requirepass is read at each login, so that CONFIG SET works. Connections that have authenticated are
not changed.

Tarantool's clients do not send a password but show that they know it (chap-sha1). The broker can
check that only if it has the password, and not only its SHA-256. They call `default` guest.

Passwords cannot be guessed quickly: after GUESSES_MOST wrong ones for a user from one host, the
broker checks GUESSES_A_SECOND from there, and refuses the others without a check. Wrong passwords
are logged.

Not here: commands without authentication (AUTH, HELLO, QUIT: the dispatcher), the right of each
command (the command tables).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address, ip_network
from time import monotonic
from typing import Final

from quinque.errors import (
    BadRequest,
    BadSetting,
    LimitReached,
    NoPermission,
    WrongPass,
    printable,
)
from quinque.model.families import FAMILIES
from quinque.model.glob import compile_glob
from quinque.server.config import Config
from quinque.server.config_sources import closest, read_toml

READ, WRITE, ADMIN = "read", "write", "admin"
RIGHTS = frozenset({READ, WRITE, ADMIN})

FAMILY_NAMES = tuple(family.name for family in FAMILIES)

DEFAULT = "default"
GUEST = "guest"
SCRAMBLE_BYTES = 20  # a SHA-1; as many of the salt are used
NO_PASSWORD = "Client sent AUTH, but no password is set"  # the text of Disque

GUESSES_MOST: Final = 100
GUESSES_A_SECOND: Final = 10
GUESSERS_MOST: Final = 10_000  # users and hosts that are remembered
_LINES_A_SECOND: Final = 10
_IPV6_HOST_BITS: Final = 64
_NAME_MOST_BYTES: Final = 64  # of a user, in the log
_DIGEST: Final = ": chap-sha1 needs the plain password, and the user has only a password-sha256"

log = logging.getLogger("quinque.server")

_ESCAPED = re.compile(rb"\\(?:x(?P<hex>[0-9a-fA-F]{2})|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class User:
    """One user. None means "all" in `families`, `commands` and `queues`."""

    name: str
    password_sha256: bytes | None = field(default=None, repr=False)
    password_sha1: bytes | None = field(default=None, repr=False)  # of the SHA-1 of it
    families: frozenset[str] | None = None
    commands: frozenset[str] | None = None
    refused_commands: frozenset[str] = frozenset()
    queues: tuple[re.Pattern[bytes], ...] | None = None
    rights: frozenset[str] = frozenset({READ, WRITE})
    is_unlimited: bool = field(init=False)

    def __post_init__(self) -> None:
        limits = (self.families, self.commands, self.queues, self.refused_commands or None)
        is_unlimited = self.rights == RIGHTS and limits == (None, None, None, None)
        object.__setattr__(self, "is_unlimited", is_unlimited)

    def check(self, command: str, family: str, right: str, queues: Iterable[bytes]) -> None:
        """Return when the user may run the command on these queues.

        `family` is "" for a command of no family; `families` does not limit those. `right` is
        "" for what every user may do (PING, CLIENT SETNAME); only "-PING" takes that away.
        A rule for CONFIG is a rule for "CONFIG GET" and "CONFIG|GET" as well.

        Raises NoPermission.
        """
        if self.is_unlimited:
            return
        if right and right not in self.rights:
            raise NoPermission(f"{self._refused_command(command)}: it needs the right '{right}'")
        if not self._may_run(command.upper(), family, right):
            raise NoPermission(self._refused_command(command))
        for queue in queues:
            if not self.sees(queue):
                raise NoPermission(
                    f"User {self.name} has no permissions to access queue"
                    f" '{printable(queue[:128])}'"
                )

    def sees(self, queue: bytes) -> bool:
        """True when the user's patterns allow the queue, as a listing of queues must ask."""
        if self.queues is None:
            return True
        return any(pattern.fullmatch(queue) for pattern in self.queues)

    def sees_family(self, family: str) -> bool:
        """True when the user may run commands of the family."""
        return self.families is None or family in self.families

    def _may_run(self, command: str, family: str, right: str) -> bool:
        if family and not self.sees_family(family):
            return False
        words = {command, re.split(r"[ |]", command, maxsplit=1)[0]}
        if not words.isdisjoint(self.refused_commands):
            return False
        is_for_everyone = not family and not right
        return is_for_everyone or self.commands is None or not words.isdisjoint(self.commands)

    def _refused_command(self, command: str) -> str:
        return f"User {self.name} has no permissions to run the '{command.lower()}' command"


class Guesses:
    """Wrong passwords: how many more are checked, for each host and user."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        # How many were left, and when.
        self._left: dict[tuple[str, bytes], tuple[float, float]] = {}
        self._lines = float(_LINES_A_SECOND)
        self._line_s = now_s()
        self._unlogged = 0

    def __len__(self) -> int:
        """Return how many users and hosts are remembered."""
        return len(self._left)

    def check(self, host: str, name: bytes) -> None:
        """Raise LimitReached if no password is checked now."""
        if self._left_now(host, name) < 1:
            raise LimitReached(
                f"too many wrong passwords for user '{printable(name)}' from {host}: the broker"
                f" checks {GUESSES_A_SECOND} per second; try again"
            )

    def wrong(self, host: str, name: bytes, address: str, why: str = "") -> None:
        """Count one more wrong password."""
        left = self._left_now(host, name) - 1
        if len(self._left) >= GUESSERS_MOST:
            self._forget_half()
        self._left[host, name] = left, self._now_s()
        self._log(f"wrong password for user '{printable(name)}' from {address}{why}")

    def _left_now(self, host: str, name: bytes) -> float:
        now_s = self._now_s()
        left, at_s = self._left.get((host, name), (float(GUESSES_MOST), now_s))
        return min(left + (now_s - at_s) * GUESSES_A_SECOND, GUESSES_MOST)

    def _forget_half(self) -> None:
        """Keep the half of the users and hosts with the fewest remaining attempts. So wrong
        passwords for many invented users do not remove a user that is under attack."""
        kept = sorted(self._left, key=lambda key: self._left_now(*key))[: GUESSERS_MOST // 2]
        self._left = {key: self._left[key] for key in kept}

    def _log(self, line: str) -> None:
        now_s = self._now_s()
        passed_s, self._line_s = now_s - self._line_s, now_s
        self._lines = min(self._lines + passed_s * _LINES_A_SECOND, _LINES_A_SECOND)
        if self._lines < 1:
            self._unlogged += 1
            return
        self._lines -= 1
        more = f" ({self._unlogged} more were not logged)" if self._unlogged else ""
        self._unlogged = 0
        log.warning("%s%s", line, more)


class Users:
    """The users of a broker."""

    def __init__(
        self, config: Config, named: Iterable[User], now_s: Callable[[], float] = monotonic
    ) -> None:
        self._config = config
        self._guesses = Guesses(now_s)
        self._named = {user.name: user for user in named}
        self._default = self._named.get(DEFAULT, User(DEFAULT, rights=RIGHTS))

    @classmethod
    def from_config(cls, config: Config) -> Users:
        """Return the users of the settings.

        Raises BadSetting with one line for each error.
        """
        users, problems = cls.read(config)
        if problems:
            raise BadSetting("\n".join(problems))
        return users

    @classmethod
    def read(cls, config: Config) -> tuple[Users, list[str]]:
        """The users as far as they can be read, and what is wrong, one line each."""
        tables, place = config.user_tables, config.origins.get("users", "users")
        problems: list[str] = []
        if config.users:
            place = config.users
            try:
                tables = _tables_in(place)
            except BadSetting as exc:
                return cls(config, []), [f"users ({config.origins.get('users', 'users')}): {exc}"]
        named = []
        for name, table in tables.items():
            row = _Row(name, place, problems)
            named.append(row.user(table))
        return cls(config, named), problems

    def unknown_commands(self, commands: Collection[str]) -> list[str]:
        """The commands that users name and the broker does not have, one line each.

        A misspelt "-QFLUSH" takes nothing away, so a start must not pass over it.
        """
        lines = []
        for user in self._named.values():
            words = (user.commands or frozenset()) | user.refused_commands
            for word in sorted(words - set(commands)):
                hint = closest(word, commands)
                lines.append(f"users.{user.name}: unknown command {word!r}{hint}")
        return lines

    def first(self) -> User | None:
        """The user that a new connection is; None when it must authenticate first."""
        return self._default if self._is_open() else None

    @property
    def are_named(self) -> bool:
        """Return whether the settings name any user."""
        return bool(self._named)

    def has(self, name: str) -> bool:
        """Return whether a user with that name exists."""
        return name == DEFAULT or name in self._named

    def login(self, name: bytes | None, password: bytes, address: str = "") -> User:
        """Return the user with that name and password. `name` is None for AUTH with one argument.
        The client is at `address`.

        As in Redis, a default user without a password accepts any password if it is named. AUTH
        with one argument is an error then.

        Raises WrongPass, BadRequest for that mistake, and LimitReached.
        """
        asked = DEFAULT if name is None else name.decode("utf-8", "replace")
        if asked == DEFAULT and self._is_open():
            if name is None:
                raise BadRequest(NO_PASSWORD)
            return self._default
        host, who = _host(address), asked.encode()[:_NAME_MOST_BYTES]
        self._guesses.check(host, who)
        user = self._default if asked == DEFAULT else self._named.get(asked)
        wanted = self._password_sha256(user) if user else None
        given = hashlib.sha256(password).digest()
        # An unknown user costs the same comparison as a known one.
        is_right = hmac.compare_digest(given, wanted or bytes(len(given)))
        if user is None or wanted is None or not is_right:
            self._guesses.wrong(host, who, address)
            raise WrongPass
        return user

    def login_by_scramble(
        self, name: bytes, salt: bytes, scramble: bytes, address: str = ""
    ) -> User:
        """Return the user with that name, if the client at `address` knows the password.

        Raises WrongPass and LimitReached. A user with a password-sha256 cannot log in this way.
        Only the log says so, because the client may not know any password.
        """
        asked = name.decode("utf-8", "replace")
        asked = DEFAULT if asked in ("", GUEST) and GUEST not in self._named else asked
        if asked == DEFAULT and self._is_open():
            return self._default
        host, who = _host(address), asked.encode()[:_NAME_MOST_BYTES]
        self._guesses.check(host, who)
        user = self._default if asked == DEFAULT else self._named.get(asked)
        wanted = self._password_sha1(user) if user else None
        known = wanted or bytes(SCRAMBLE_BYTES)
        mask = hashlib.sha1(salt[:SCRAMBLE_BYTES] + known).digest()
        first = bytes(one ^ other for one, other in zip(scramble, mask, strict=False))
        is_right = hmac.compare_digest(hashlib.sha1(first).digest(), known)
        if user is None or wanted is None or not is_right:
            has_digest = user is not None and self._password_sha256(user) is not None
            self._guesses.wrong(host, who, address, _DIGEST if has_digest and not wanted else "")
            raise WrongPass
        return user

    def _is_open(self) -> bool:
        """True when the default user needs no password."""
        if self._named and DEFAULT not in self._named:
            return False
        return self._password_sha256(self._default) is None

    def _password_sha256(self, user: User) -> bytes | None:
        if user is self._default and self._config.requirepass:
            return hashlib.sha256(self._config.requirepass.encode()).digest()
        return user.password_sha256

    def _password_sha1(self, user: User) -> bytes | None:
        if user is self._default and self._config.requirepass:
            return double_sha1(self._config.requirepass)
        return user.password_sha1


def _host(address: str) -> str:
    """Return the host of a client, for which wrong passwords are counted. All clients of Unix
    sockets are on this machine, whatever the names of their sockets. A host with IPv6 usually has a
    whole network of addresses."""
    host, _, port = address.rpartition(":")
    if port == "0":
        return "unix"
    try:
        found = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, IPv4Address):
        return host
    return str(found.ipv4_mapped or ip_network((found, _IPV6_HOST_BITS), strict=False))


def double_sha1(password: str) -> bytes:
    """Return the hash of a password that is needed to check a scramble."""
    return hashlib.sha1(hashlib.sha1(password.encode()).digest()).digest()


class _Row:
    """Reads one [users.NAME] table, and notes what is wrong with it."""

    KEYS = ("password", "password-sha256", "families", "commands", "queues", "rights")

    def __init__(self, name: str, place: str, problems: list[str]) -> None:
        self.name = name
        self.place = place
        self.problems = problems

    def user(self, table: object) -> User:
        if not self.name or not self.name.isprintable() or " " in self.name:
            self.problem("", "a user name must be printable, without spaces")
        if not isinstance(table, dict):
            self.problem("", "must be a table with password, rights …")
            return User(self.name)
        for key in table:
            if key not in self.KEYS:
                self.problem(key, f"unknown key{closest(key, self.KEYS)}")
        words = self.words(table, "commands")
        rights = self.words(table, "rights")
        for right in rights or []:
            if right not in RIGHTS:
                self.problem("rights", f"{right!r} is not one of {', '.join(sorted(RIGHTS))}")
        families = self.words(table, "families")
        for family in families or []:
            if family not in FAMILY_NAMES:
                self.problem("families", f"{family!r} is not one of {', '.join(FAMILY_NAMES)}")
        queues = self.words(table, "queues")
        if ADMIN in (rights or []) and (queues is not None or families is not None):
            limit = "queues" if queues is not None else "families"
            self.problem("rights", f"'admin' applies to the whole broker: remove it, or {limit}")
        return User(
            self.name,
            password_sha256=self.password_sha256(table),
            password_sha1=self.password_sha1(table),
            # A user of every family may also use commands that are about all of them (QUEUES).
            families=None
            if families is None or set(FAMILY_NAMES) <= set(families)
            else frozenset(families),
            commands=_allowed(words),
            refused_commands=frozenset(word[1:].upper() for word in words or [] if word[0] == "-"),
            queues=None if queues is None else tuple(map(_queue_pattern, queues)),
            rights=frozenset({READ, WRITE}) if rights is None else frozenset(rights),
        )

    def password_sha256(self, table: dict[str, object]) -> bytes | None:
        plain, digest = table.get("password"), table.get("password-sha256")
        if plain is not None and digest is not None:
            self.problem("password", "set password or password-sha256, not both")
        elif plain is not None:
            if isinstance(plain, str) and plain:
                return hashlib.sha256(plain.encode()).digest()
            self.problem("password", "must be a non-empty string")
        elif digest is not None:
            if isinstance(digest, str) and re.fullmatch("[0-9a-fA-F]{64}", digest):
                return bytes.fromhex(digest)
            self.problem("password-sha256", "must be 64 hex digits")
        elif self.name != DEFAULT:
            self.problem("password", "is missing; only the user 'default' can have no password")
        return None

    def password_sha1(self, table: dict[str, object]) -> bytes | None:
        plain = table.get("password")
        return double_sha1(plain) if isinstance(plain, str) and plain else None

    def words(self, table: dict[str, object], key: str) -> list[str] | None:
        given = table.get(key)
        if given is None:
            return None
        if isinstance(given, list) and all(isinstance(word, str) and word for word in given):
            return given
        self.problem(key, "must be a list of strings")
        return None

    def problem(self, key: str, reason: str) -> None:
        path = f"users.{self.name}.{key}" if key else f"users.{self.name}"
        self.problems.append(f"{path} ({self.place}): {reason}")


def _tables_in(path: str) -> dict[str, object]:
    given = read_toml(path)
    tables = given.pop("users", {})
    if given or not isinstance(tables, dict):
        named = ", ".join(given) or "users"
        raise BadSetting(f"{path!r} can contain only tables [users.NAME], but it contains {named}")
    if not tables:
        # No users at all would mean that every client may do everything.
        raise BadSetting(f"{path!r} contains no table [users.NAME]")
    return tables


def _allowed(words: list[str] | None) -> frozenset[str] | None:
    """Return the commands that are named without "-"; all commands if each word removes one."""
    if words is None or (words and all(word[0] == "-" for word in words)):
        return None
    return frozenset(word.upper() for word in words if word[0] != "-")


def _queue_pattern(text: str) -> re.Pattern[bytes]:
    """The pattern, in which \\xNN is that byte and never a sign of the pattern."""

    def byte(escaped: re.Match[bytes]) -> bytes:
        digits = escaped["hex"]
        return b"\\" + bytes.fromhex(digits.decode()) if digits else escaped[0]

    return compile_glob(_ESCAPED.sub(byte, text.encode()))
