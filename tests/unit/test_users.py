"""Who a client is when it connects, who it can become, and what each user may do."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest

from quinque.errors import BadRequest, BadSetting, LimitReached, NoPermission, WrongPass
from quinque.server.config import Config
from quinque.server.config_commands import set_live
from quinque.server.users import GUESSERS_MOST, GUESSES_MOST, Guesses, User, Users

DIGEST = ": chap-sha1 needs the plain password, and the user has only a password-sha256"
SALT = bytes(range(32))
BOB = '[users.bob]\npassword = "secret"\n'


def users_of(text: str, requirepass: str = "") -> Users:
    tables = tomllib.loads(text).get("users", {})
    return Users.from_config(Config(user_tables=tables, requirepass=requirepass))


def bob_with(text: str) -> User:
    return users_of(BOB + text).login(b"bob", b"secret")


def problems(text: str) -> list[str]:
    with pytest.raises(BadSetting) as caught:
        users_of(text)
    return str(caught.value).splitlines()


def test_without_passwords_and_users_a_connection_may_do_everything() -> None:
    user = users_of("").first()

    assert user is not None
    assert (user.name, user.is_unlimited) == ("default", True)


def test_with_requirepass_a_connection_must_give_it() -> None:
    users = users_of("", requirepass="pw")

    assert users.first() is None
    assert users.login(None, b"pw").is_unlimited
    assert users.login(b"default", b"pw").is_unlimited
    with pytest.raises(WrongPass):
        users.login(None, b"no")


def test_with_users_and_no_requirepass_there_is_no_default_user() -> None:
    users = users_of(BOB)

    assert users.first() is None
    for name in (None, b"default"):
        for password in (b"", b"secret", bytes(32)):
            with pytest.raises(WrongPass):
                users.login(name, password)


def test_a_default_user_without_a_password_has_the_rights_of_its_table() -> None:
    user = users_of(BOB + '[users.default]\nrights = ["read"]\n').first()

    assert user is not None
    user.check("QSTATUS", "events", "read", [])
    with pytest.raises(NoPermission):
        user.check("QADD", "events", "write", [b"q"])


def test_a_default_user_with_a_password_must_give_it() -> None:
    users = users_of('[users.default]\npassword = "own"\n')

    assert users.first() is None
    assert users.login(None, b"own").name == "default"


def test_requirepass_is_the_default_users_password_over_the_one_of_its_table() -> None:
    users = users_of('[users.default]\npassword = "own"\n', requirepass="pw")

    assert users.login(None, b"pw").name == "default"
    with pytest.raises(WrongPass):
        users.login(None, b"own")


def test_auth_with_a_password_nobody_asked_for_is_an_error_as_in_disque() -> None:
    with pytest.raises(BadRequest) as caught:
        users_of("").login(None, b"pw")

    assert str(caught.value) == "Client sent AUTH, but no password is set"


def test_a_default_user_without_password_can_be_named_with_any_password() -> None:
    assert users_of("").login(b"default", b"whatever").is_unlimited


def test_requirepass_set_while_the_broker_runs_holds_from_the_next_connection_on() -> None:
    config = Config()
    users = Users.from_config(config)

    set_live(config, [(b"requirepass", b"pw")])

    assert users.first() is None
    assert users.login(None, b"pw").is_unlimited


def test_a_named_user_needs_the_right_name_and_password() -> None:
    users = users_of(BOB)

    assert users.login(b"bob", b"secret").name == "bob"
    for name, password in [(b"bob", b"Secret"), (b"eve", b"secret"), (b"b\xffb", b""), (b"", b"")]:
        with pytest.raises(WrongPass):
            users.login(name, password)


def test_a_password_may_be_given_as_its_digest() -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    users = users_of(f'[users.bob]\npassword-sha256 = "{digest}"\n')

    assert users.login(b"bob", b"secret").name == "bob"
    with pytest.raises(WrongPass):
        users.login(b"bob", digest.encode())


def scramble(password: str) -> bytes:
    """What shows, of SALT, that a client of Tarantool's protocol knows the password."""
    once = hashlib.sha1(password.encode()).digest()
    mask = hashlib.sha1(SALT[:20] + hashlib.sha1(once).digest()).digest()
    return bytes(one ^ other for one, other in zip(once, mask, strict=True))


def test_who_shows_to_know_the_password_need_not_send_it() -> None:
    users = users_of(BOB)

    assert users.login_by_scramble(b"bob", SALT, scramble("secret")).name == "bob"
    for name, shown in [
        *((b"bob", scramble("other")), (b"bob", b""), (b"bob", bytes(20)), (b"eve", scramble(""))),
        *((b"guest", b""), (b"default", b""), (b"", scramble("secret"))),
    ]:
        with pytest.raises(WrongPass):
            users.login_by_scramble(name, SALT, shown)
    with pytest.raises(WrongPass):
        users.login_by_scramble(b"bob", SALT[::-1], scramble("secret"))


def test_guest_is_what_the_default_user_is_called_by_clients_of_tarantool() -> None:
    for name in (b"guest", b"", b"default"):
        closed = users_of("", requirepass="pw")
        assert users_of("").login_by_scramble(name, SALT, b"").name == "default"
        assert closed.login_by_scramble(name, SALT, scramble("pw")).name == "default"
        with pytest.raises(WrongPass):
            closed.login_by_scramble(name, SALT, b"")
    own = users_of(BOB + '[users.guest]\npassword = "mine"\n')
    assert own.login_by_scramble(b"guest", SALT, scramble("mine")).name == "guest"


def test_whoever_needs_a_password_for_a_scramble_is_named_in_the_log_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    users = users_of(f'[users.bob]\npassword-sha256 = "{digest}"\n')

    for name in (b"bob", b"nobody"):
        with pytest.raises(WrongPass):
            users.login_by_scramble(name, SALT, scramble("secret"), "10.0.0.1:7")

    assert caplog.messages == [
        f"wrong password for user 'bob' from 10.0.0.1:7{DIGEST}",
        "wrong password for user 'nobody' from 10.0.0.1:7",
    ]


def test_passwords_cannot_be_guessed_quickly(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    tables = tomllib.loads(BOB + BOB.replace("bob", "eve"))["users"]
    named = [User("bob", hashlib.sha256(b"b").digest()), User("eve", hashlib.sha256(b"e").digest())]
    users = Users(Config(user_tables=tables), named, lambda: now_s[0])

    def guess(count: int) -> list[type[Exception]]:
        found: list[type[Exception]] = []
        for _ in range(count):
            with pytest.raises((WrongPass, LimitReached)) as caught:
                users.login(b"bob", b"no", "10.0.0.1:7")
            found.append(caught.type)
        return found

    assert guess(GUESSES_MOST + 1) == [WrongPass] * GUESSES_MOST + [LimitReached]
    with pytest.raises(LimitReached, match=r"'bob' from 10\.0\.0\.1: the broker checks 10 per s"):
        users.login(b"bob", b"b", "10.0.0.1:8")
    assert users.login(b"bob", b"b", "10.0.0.2:7").name == "bob", "from elsewhere"
    assert users.login(b"eve", b"e", "10.0.0.1:7").name == "eve", "another user"
    now_s[0] += 0.5
    assert guess(6) == [WrongPass] * 5 + [LimitReached]
    now_s[0] += 0.5
    assert users.login(b"bob", b"b", "10.0.0.1:7").name == "bob"
    assert len(caplog.messages) == 15
    assert caplog.messages[10].endswith("from 10.0.0.1:7 (90 more were not logged)")


def test_invented_users_do_not_hide_the_one_that_is_under_attack() -> None:
    users = Users(Config(), [User("bob", hashlib.sha256(b"b").digest())], lambda: 0.0)

    def guess(name: bytes) -> type[Exception]:
        with pytest.raises((WrongPass, LimitReached)) as caught:
            users.login(name, b"no", "10.0.0.1:7")
        return caught.type

    assert [guess(b"bob") for _ in range(GUESSES_MOST)] == [WrongPass] * GUESSES_MOST
    for number in range(25_000):
        guess(b"nobody-%d" % number)

    assert guess(b"bob") == LimitReached


@pytest.mark.parametrize(
    ("first", "other", "is_same"),
    [
        ("10.0.0.1:7", "10.0.0.1:8", True),
        ("10.0.0.1:7", "10.0.0.2:7", False),
        ("/tmp/a:0", "/tmp/b:0", True),
        ("unix:0", "/tmp/b:0", True),
        ("[2001:db8::1]:7", "[2001:db8::ffff:2]:8", True),
        ("[2001:db8::1]:7", "[2001:db8:0:1::1]:7", False),
        ("[fe80::1%eth0]:7", "[fe80::2%eth0]:7", True),
        ("[::ffff:10.0.0.1]:7", "[::ffff:10.0.0.2]:7", False),
    ],
)
def test_guesses_of_one_host_are_counted_together(first: str, other: str, is_same: bool) -> None:
    users = Users(Config(), [User("bob", hashlib.sha256(b"b").digest())], lambda: 0.0)
    for _ in range(GUESSES_MOST):
        with pytest.raises(WrongPass):
            users.login(b"bob", b"no", first)

    with pytest.raises(LimitReached if is_same else WrongPass):
        users.login(b"bob", b"no", other)


def test_the_users_and_hosts_of_wrong_passwords_are_bounded() -> None:
    guesses = Guesses(lambda: 0.0)

    for number in range(25_000):
        guesses.wrong("10.0.0.1", b"nobody-%d" % number, "10.0.0.1:7")

    assert len(guesses) <= GUESSERS_MOST


def test_a_user_may_read_and_write_and_not_administer() -> None:
    bob = bob_with("")

    assert not bob.is_unlimited
    bob.check("QADD", "events", "write", [b"any\xff"])
    with pytest.raises(NoPermission) as caught:
        bob.check("CONFIG", "", "admin", [])
    assert str(caught.value) == (
        "User bob has no permissions to run the 'config' command: it needs the right 'admin'"
    )


def test_a_user_with_all_rights_and_no_limits_is_unlimited() -> None:
    assert bob_with('rights = ["read", "write", "admin"]').is_unlimited
    assert not bob_with('rights = ["read", "write", "admin"]\ncommands = ["-PING"]').is_unlimited


def test_who_administers_the_broker_is_not_limited_to_a_part_of_it() -> None:
    rights = 'rights = ["read", "admin"]\n'

    assert problems(BOB + rights + 'queues = ["orders.*"]') == [
        "users.bob.rights (users): 'admin' applies to the whole broker: remove it, or queues"
    ]
    assert problems(BOB + rights + 'families = ["jobs"]') == [
        "users.bob.rights (users): 'admin' applies to the whole broker: remove it, or families"
    ]
    bob_with(rights + 'commands = ["INFO", "SLOWLOG"]').check("SLOWLOG|GET", "", "admin", [])


def test_only_listed_commands_may_run() -> None:
    bob = bob_with('commands = ["qadd", "CLIENT"]')

    bob.check("QADD", "events", "write", [b"q"])
    bob.check("client|list", "", "read", [])
    with pytest.raises(NoPermission) as caught:
        bob.check("QGET", "events", "write", [b"q"])
    assert str(caught.value) == "User bob has no permissions to run the 'qget' command"


def test_a_command_can_be_taken_away() -> None:
    bob = bob_with('commands = ["-QFLUSH", "-CLIENT"]')

    bob.check("QADD", "events", "write", [b"q"])
    for command in ("QFLUSH", "CLIENT", "CLIENT LIST", "CLIENT|LIST"):
        with pytest.raises(NoPermission):
            bob.check(command, "", "", [])


def test_no_listed_command_is_no_command() -> None:
    with pytest.raises(NoPermission):
        bob_with("commands = []").check("QADD", "events", "write", [])


def test_what_everyone_may_do_needs_no_listing() -> None:
    bob_with('commands = ["QADD"]\nrights = []\nfamilies = []').check("PING", "", "", [])


def test_only_listed_families_may_be_used() -> None:
    bob = bob_with('families = ["events"]')

    bob.check("QADD", "events", "write", [b"q"])
    bob.check("INFO", "", "read", [])
    with pytest.raises(NoPermission):
        bob.check("ADDJOB", "jobs", "write", [b"q"])


def test_only_queues_that_match_may_be_touched() -> None:
    bob = bob_with('queues = ["orders.*", "logs"]')

    bob.check("QADD", "events", "write", [b"orders.\xff\n", b"logs"])
    with pytest.raises(NoPermission) as caught:
        bob.check("QADD", "events", "write", [b"logs", b"order\r\ns"])
    assert str(caught.value) == "User bob has no permissions to access queue 'order  s'"


def test_a_listing_can_ask_which_queues_a_user_sees() -> None:
    assert bob_with("").sees(b"any")
    assert [q for q in (b"a1", b"b1") if bob_with('queues = ["a*"]').sees(q)] == [b"a1"]
    assert not bob_with("queues = []").sees(b"any")


def test_a_queue_pattern_can_name_any_byte() -> None:
    bob = bob_with(r"queues = ['\xff\x2a', 'a\\xff']")

    assert bob.sees(b"\xff*")
    assert not bob.sees(b"\xffz")
    assert bob.sees(b"a\\xff")


def test_an_unlimited_user_passes_every_check() -> None:
    user = users_of("").first()

    assert user is not None
    user.check("SHUTDOWN", "", "admin", [b"x"])


def test_everything_wrong_with_the_users_is_reported_together() -> None:
    text = """
        [users.bob]
        pasword = "x"
        rights = ["reed"]
        families = ["event"]
        queues = "orders.*"
        [users.eve]
        password = "x"
        password-sha256 = "y"
        [users.sue]
        password-sha256 = "abc"
        [users."a b"]
        password = ""
        [users]
        tom = 5
    """

    assert problems(text) == [
        "users.bob.pasword (users): unknown key; did you mean password?",
        "users.bob.rights (users): 'reed' is not one of admin, read, write",
        "users.bob.families (users): 'event' is not one of events, jobs, reliable, items, tubes",
        "users.bob.queues (users): must be a list of strings",
        "users.bob.password (users): is missing; only the user 'default' can have no password",
        "users.eve.password (users): set password or password-sha256, not both",
        "users.sue.password-sha256 (users): must be 64 hex digits",
        "users.a b (users): a user name must be printable, without spaces",
        "users.a b.password (users): must be a non-empty string",
        "users.tom (users): must be a table with password, rights …",
    ]


def test_users_come_from_the_file_that_the_setting_names(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    file.write_text(BOB)

    users = Users.from_config(Config(users=str(file)))

    assert users.login(b"bob", b"secret").name == "bob"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("[users", "is not valid TOML"),
        ("", "contains no table [users.NAME]"),
        ("[user.bob]\n", "can contain only tables [users.NAME], but it contains user"),
        ("users = 5\n", "can contain only tables [users.NAME], but it contains users"),
    ],
)
def test_a_users_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "users.toml"
    if text is not None:
        file.write_text(text)

    with pytest.raises(BadSetting) as caught:
        Users.from_config(Config(users=str(file)))

    assert reason in str(caught.value)


def test_commands_that_do_not_exist_are_found() -> None:
    users = users_of(BOB + 'commands = ["QADD", "-QFLSH"]\n')

    assert users.unknown_commands({"QADD", "QFLUSH"}) == [
        "users.bob: unknown command 'QFLSH'; did you mean QFLUSH?"
    ]


def test_a_password_is_not_shown_by_repr() -> None:
    assert hashlib.sha256(b"secret").hexdigest() not in repr(bob_with("")).lower()
    assert "password" not in repr(bob_with(""))
