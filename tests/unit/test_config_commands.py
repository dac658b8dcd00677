"""CONFIG GET, CONFIG SET and CONFIG REWRITE."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.errors import BadArgument, BadSetting
from quinque.server.config import SETTINGS, Config, LogLevel
from quinque.server.config_commands import get, rewrite, set_live
from quinque.server.config_sources import load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quinque.toml"


def test_get_shows_values_as_redis_does() -> None:
    config = Config(maxmemory=1024, idle_timeout=0.5, log_json=True, listen=[":1", ":2"])

    assert get(config, b"maxmemory") == [("maxmemory", "1024")]
    assert get(config, b"IDLE-*") == [("idle-timeout", "0.5")]
    assert get(config, b"log-json") == [("log-json", "yes")]
    assert get(config, b"listen") == [("listen", ":1,:2")]
    assert get(config, b"nothing-like-it") == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@h:1/0", "redis://:(redacted)@h:1/0"),
        ("rediss://bob:se@c/ret@h:1", "rediss://bob:(redacted)@h:1"),
        ("redis+cluster://h:1,g:2?password=secret", "redis+cluster://h:1,g:2?password=(redacted)"),
        (
            "redis+sentinel://a:b@h:1/m?sentinel_password=secret&db=1",
            "redis+sentinel://a:(redacted)@h:1/m?sentinel_password=(redacted)&db=1",
        ),
        ("redis://bob@h:1/0", "redis://bob@h:1/0"),
        ("unix:///run/redis", "unix:///run/redis"),
        ("embedded", "embedded"),
    ],
)
def test_get_does_not_show_the_password_of_a_store(url: str, shown: str) -> None:
    assert get(Config(store=url), b"store") == [("store", shown)]


def test_get_star_shows_every_setting_once() -> None:
    names = [name for name, _ in get(Config(), b"*")]

    assert set(SETTINGS) <= set(names)
    assert len(names) == len(set(names))


def test_get_answers_the_names_that_redis_tools_ask_for() -> None:
    config = Config(listen=["unix:/tmp/x", "10.0.0.1:7", ":8"], idle_timeout=0.5)

    assert get(config, b"save") == [("save", "")]
    assert get(config, b"append*") == [("appendonly", "yes"), ("appendfsync", "always")]
    assert get(config, b"maxclients") == [("maxclients", "10000")]
    assert get(config, b"timeout") == [("timeout", "1")]
    assert get(config, b"databases") == [("databases", "1")]
    assert get(config, b"unixsocket") == [("unixsocket", "/tmp/x")]
    assert get(config, b"client-output*") == [
        ("client-output-buffer-limit", f"normal {64 << 20} 0 0")
    ]
    assert get(config, b"port") == [("port", "7")]
    assert get(config, b"bind") == [("bind", "10.0.0.1 *")]
    assert get(Config(listen=["unix:/tmp/x"]), b"port") == [("port", "0")]


def test_get_refuses_an_endless_pattern() -> None:
    with pytest.raises(BadArgument, match="1024 bytes"):
        get(Config(), b"*" * 1025)


def test_set_changes_what_is_live() -> None:
    config = Config()

    set_live(config, [(b"MAXMEMORY", b"1mb"), (b"fsync", b"everysec")])

    assert (config.maxmemory, config.fsync) == (1 << 20, "everysec")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (b"maxmemory", b"lots", "'lots' is not a size"),
        (b"maxmemory", b"\xff", "b'\\xff' is not a size"),
        (b"dir", b"elsewhere", "it can only be changed by a restart"),
        (b"appendonly", b"no", "'no' is not one of: yes"),
        (b"maxclients", b"many", "'many' is not a whole number"),
        (b"appendfsync", b"always", "the setting is given twice"),
        (b"save", b"", "it is read-only"),
        (b"max-args", b"4", "'4' is not a whole number from 16"),
        (b"fsync", b"no", "the setting is given twice"),
        (b"max-arg-size", b"1gb", "must not be greater than query-buffer-limit"),
    ],
)
def test_set_changes_nothing_when_one_of_several_is_wrong(
    name: bytes, value: bytes, reason: str
) -> None:
    config = Config()

    with pytest.raises(BadSetting) as caught:
        set_live(config, [(b"fsync", b"no"), (b"slowlog-max-len", b"5"), (name, value)])

    assert f"(possibly related to argument '{name.decode()}') - {reason}" in str(caught.value)
    assert config == Config()
    assert config.origins == {}


@pytest.mark.parametrize(
    ("name", "hint"),
    [(b"max-client", "; did you mean max-clients?"), (b"hz", ""), (b"TCP-BACKLOG", "")],
)
def test_set_of_what_is_not_a_setting_names_it_as_disque_does(name: bytes, hint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        set_live(Config(), [(name, b"5")])

    assert str(caught.value) == f"Unsupported CONFIG parameter: {name.decode().lower()}{hint}"


def test_set_takes_other_names_of_our_settings() -> None:
    config = Config()

    set_live(
        config,
        [
            (b"maxclients", b"7"),
            (b"appendfsync", b"everysec"),
            (b"timeout", b"30"),
            (b"LogLevel", b"Verbose"),
        ],
    )

    assert (config.max_clients, config.fsync) == (7, "everysec")
    assert (config.idle_timeout, config.log_level) == (30.0, "debug")
    assert get(config, b"loglevel") == [("loglevel", "debug")]


@pytest.mark.parametrize(
    ("level", "shown"), [("info", "notice"), ("warning", "warning"), ("error", "warning")]
)
def test_get_shows_log_levels_in_the_words_of_redis(level: LogLevel, shown: str) -> None:
    assert get(Config(log_level=level), b"loglevel") == [("loglevel", shown)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"appendonly", b"yes"),
        (b"aof-enqueue-jobs-once", b"yes"),
        (b"aof-enqueue-jobs-once", b"no"),
        (b"aof-load-truncated", b"yes"),
        (b"maxmemory-policy", b"noeviction"),
        (b"cluster-node-timeout", b"15000"),
    ],
)
def test_set_of_what_needs_nothing_done_is_accepted_and_changes_nothing(
    name: bytes, value: bytes
) -> None:
    config = Config()

    set_live(config, [(name, value)])

    assert config == Config()
    assert config.origins == {}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (b"aof-enqueue-jobs-once", b"twice", "'twice' is not one of: yes, no"),
        (b"aof-load-truncated", b"no", "'no' is not one of: yes"),
        (b"maxmemory-policy", b"acks", "'acks' is not one of: noeviction"),
        (b"cluster-node-timeout", b"-5", "'-5' is not a whole number"),
    ],
)
def test_set_to_what_would_need_something_done_is_refused(
    name: bytes, value: bytes, reason: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        set_live(Config(), [(name, value)])

    assert f"(possibly related to argument '{name.decode()}') - {reason}" in str(caught.value)


def test_set_of_a_name_with_line_breaks_answers_on_one_line() -> None:
    with pytest.raises(BadSetting) as caught:
        set_live(Config(), [(b"a\r\n+OK", b"1")])

    assert "\n" not in str(caught.value)


def test_settings_that_depend_on_each_other_can_change_together() -> None:
    config = Config()

    set_live(config, [(b"max-arg-size", b"1gb"), (b"query-buffer-limit", b"2gb")])

    assert config.max_arg_size == 1 << 30


def test_rewrite_without_a_config_file_is_refused() -> None:
    with pytest.raises(BadSetting, match="running without a config file"):
        rewrite(Config())


def test_rewrite_keeps_comments_order_and_tables(file: Path) -> None:
    file.write_text(
        "# ours\n"
        "max-clients = 50\n"
        "listen = [\n"
        '  "127.0.0.1:1",  # first\n'
        '  "127.0.0.1:2",\n'
        "]\n"
        'maxmemory = "1mb"  # much\n'
        "\n"
        "[users.alice]  # works at night\n"
        'password = "x"\n'
    )
    config = load({"config": str(file)}, {})
    set_live(config, [(b"maxmemory", b"2mb"), (b"fsync", b"no")])

    rewrite(config)

    assert file.read_text() == (
        "# ours\n"
        "max-clients = 50\n"
        "listen = [\n"
        '  "127.0.0.1:1",  # first\n'
        '  "127.0.0.1:2",\n'
        "]\n"
        'maxmemory = "2mb"\n'
        "\n"
        'fsync = "no"\n'
        "[users.alice]  # works at night\n"
        'password = "x"\n'
    )


def test_what_rewrite_wrote_starts_with_the_same_settings(file: Path) -> None:
    file.write_text('maxmemory = "1mb"')
    config = load({"config": str(file), "listen": [":1", "unix:/tmp/x"]}, {})
    set_live(
        config,
        [(b"requirepass", 'a"b\\c\n\x7f\u2028é'.encode()), (b"idle-timeout", b"1500ms")],
    )

    rewrite(config)

    assert load({"config": str(file)}, {}) == config


def test_a_setting_set_back_to_its_default_is_written_where_the_file_had_another(
    file: Path,
) -> None:
    file.write_text("max-clients = 5\n")
    config = load({"config": str(file)}, {})
    set_live(config, [(b"max-clients", b"10000")])

    rewrite(config)

    assert file.read_text() == "max-clients = 10000\n"


def test_rewrite_does_not_write_down_a_secret_that_came_from_its_own_file(
    file: Path, tmp_path: Path
) -> None:
    file.write_text("")
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    config = load({"config": str(file)}, {"QUINQUE_REQUIREPASS_FILE": str(secret)})

    rewrite(config)

    assert file.read_text() == ""

    set_live(config, [(b"requirepass", b"new")])
    rewrite(config)

    assert file.read_text() == 'requirepass = "new"\n'


def test_rewrite_leaves_user_tables_alone_when_a_flag_named_a_users_file(file: Path) -> None:
    text = '[users.alice]\npassword = "x"\n'
    file.write_text(text)
    config = load({"config": str(file), "users": "users.toml"}, {})

    rewrite(config)

    assert file.read_text() == text


def test_rewrite_keeps_the_mode_and_the_link_of_the_file(file: Path, tmp_path: Path) -> None:
    file.write_text("max-clients = 5\n")
    file.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    config = load({"config": str(link)}, {})
    set_live(config, [(b"max-clients", b"6")])

    rewrite(config)

    assert link.is_symlink()
    assert file.read_text() == "max-clients = 6\n"
    assert file.stat().st_mode & 0o7777 == 0o640


def test_a_rewrite_that_fails_leaves_the_file_and_no_other_behind(
    file: Path, tmp_path: Path
) -> None:
    file.write_text("max-clients = 5\n")
    config = load({"config": str(file)}, {})
    file.write_text("max-clients = = 5\n")

    with pytest.raises(BadSetting, match="no longer valid TOML"):
        rewrite(config)

    assert file.read_text() == "max-clients = = 5\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_rewrite_into_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    config = Config(config=str(tmp_path / "gone" / "quinque.toml"))

    with pytest.raises(BadSetting, match="Rewriting config file: No such file or directory"):
        rewrite(config)
