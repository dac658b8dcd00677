"""The table of settings, and how values reach it from flags, environment and file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from quinque.errors import BadSetting
from quinque.server.config import SETTINGS, Config
from quinque.server.config_sources import load
from quinque.server.config_text import example, listing


def loaded(
    flags: Mapping[str, str | Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    return load(flags or {}, environ or {})


def problems(
    flags: Mapping[str, str | Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[str]:
    with pytest.raises(BadSetting) as caught:
        loaded(flags, environ)
    return str(caught.value).splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quinque.toml"


def test_nothing_given_is_the_defaults() -> None:
    config = loaded()

    assert config == Config()
    assert config.listen == ["127.0.0.1:4777"]
    assert config.fsync == "always"
    assert config.segment_size == 64 * 1024 * 1024


def test_the_example_file_loads_to_the_defaults(file: Path) -> None:
    file.write_text(example())

    assert loaded({"config": str(file)}) == Config(config=str(file))


def test_the_example_file_names_every_setting_with_its_meaning_unit_and_default() -> None:
    text = example()

    for name, setting in SETTINGS.items():
        assert f"\n{name} = {setting.kind.toml(setting.default)}\n" in text.replace(
            "# config", "config"
        )
        assert setting.meaning.split(".")[0].split()[0] in text
        assert f"Default: {setting.kind.toml(setting.default)}." in text
    assert "# Value: microseconds, -1 to 366d. Default: 10000." in text


def test_the_users_of_the_example_file_can_be_switched_on(file: Path) -> None:
    head, tail = example().split("# [users.alice]")
    users = "[users.alice]" + tail.replace("\n# ", "\n")
    file.write_text(head.replace('users = ""\n', "") + users)

    assert loaded({"config": str(file)}).user_tables["alice"]["queues"] == ["orders.*"]


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(file: Path) -> None:
    file.write_text("max-clients = 1\nmax-args = 101\nslowlog-max-len = 1001\n")
    environ = {"QUINQUE_CONFIG": str(file), "QUINQUE_MAX_CLIENTS": "2", "QUINQUE_MAX_ARGS": "102"}

    config = loaded({"max-clients": "3"}, environ)

    assert (config.max_clients, config.max_args, config.slowlog_max_len) == (3, 102, 1001)


def test_the_config_flag_wins_over_the_variable(file: Path) -> None:
    file.write_text("max-clients = 7\n")

    config = loaded({"config": str(file)}, {"QUINQUE_CONFIG": "nowhere.toml"})

    assert config.max_clients == 7


def test_a_list_is_a_list_in_the_file_commas_in_the_environment_and_flags_repeated(
    file: Path,
) -> None:
    both = ["127.0.0.1:1", "unix:/tmp/q.sock"]
    file.write_text(f'listen = ["{both[0]}", "{both[1]}"]\n')

    assert loaded({"config": str(file)}).listen == both
    assert loaded(environ={"QUINQUE_LISTEN": ", ".join(both)}).listen == both
    assert loaded({"listen": both}).listen == both


def test_two_configs_do_not_share_their_lists() -> None:
    Config().listen.append("127.0.0.1:1")

    assert Config().listen == ["127.0.0.1:4777"]


def test_a_variable_can_name_the_file_that_holds_the_value(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")

    assert loaded(environ={"QUINQUE_REQUIREPASS_FILE": str(secret)}).requirepass == "open sesame"


def test_a_variable_and_its_file_twin_together_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a")
    environ = {"QUINQUE_REQUIREPASS": "b", "QUINQUE_REQUIREPASS_FILE": str(secret)}

    reason = "QUINQUE_REQUIREPASS is set too; set only one of them"
    assert problems(environ=environ) == [f"requirepass (QUINQUE_REQUIREPASS_FILE): {reason}"]


def test_a_path_is_not_read_out_of_another_file() -> None:
    assert problems(environ={"QUINQUE_CONFIG_FILE": "quinque.toml"}) == [
        "config (QUINQUE_CONFIG_FILE): is already a path; set QUINQUE_CONFIG to it"
    ]


def test_variables_of_other_programs_are_passed_over() -> None:
    assert loaded(environ={"PATH": "/bin", "QUINQUEREME": "1"}) == Config()


def test_all_problems_are_reported_together_with_their_places(file: Path) -> None:
    file.write_text('max-client = 5\nfsync = "sometimes"\nlog-json = 3\n')
    environ = {"QUINQUE_MAXMEMRY": "1gb", "QUINQUE_MAX_ARGS": "many"}

    lines = problems({"config": str(file), "listen": ["nowhere"]}, environ)

    assert lines == [
        "listen (--listen): 'nowhere' is not an address; write host:port or unix:path",
        "QUINQUE_MAXMEMRY (environment): unknown setting; did you mean QUINQUE_MAXMEMORY?",
        "max-args (QUINQUE_MAX_ARGS): 'many' is not a whole number from 16 to 2147483647",
        f"max-client ({file}): unknown setting; did you mean max-clients?",
        f"fsync ({file}): 'sometimes' is not one of: always, everysec, no",
        f"log-json ({file}): 3 is not yes or no (true or false in a config file)",
    ]


def test_a_bad_value_is_reported_even_where_a_flag_overrides_it() -> None:
    lines = problems({"max-clients": "5"}, {"QUINQUE_MAX_CLIENTS": "-5"})

    assert lines == [
        "max-clients (QUINQUE_MAX_CLIENTS): '-5' is not a whole number from 1 to 2147483647"
    ]


def test_a_config_file_that_is_missing_or_not_toml_is_named(file: Path) -> None:
    assert problems({"config": str(file)}) == [
        f"config (--config): cannot read '{file}': No such file or directory"
    ]

    for text in ("max-clients: 5\n", f"max-clients = {'9' * 5_000}", f"listen = {'[' * 100_000}"):
        file.write_text(text)

        line = problems({"config": str(file)})[0]
        assert line.startswith(f"config (--config): '{file}' is not valid TOML")


def test_a_config_file_cannot_name_another(file: Path) -> None:
    file.write_text('config = "other.toml"\n')

    assert problems({"config": str(file)}) == [
        f"config ({file}): a config file cannot set the path of another config file"
    ]


def test_the_files_of_tls_must_be_there() -> None:
    flags = {"tls-listen": [":1"], "tls-cert": "no-cert.pem", "tls-key": "no-key.pem"}

    assert problems(flags) == [
        "tls-cert (--tls-cert): cannot read 'no-cert.pem': No such file or directory",
        "tls-key (--tls-key): cannot read 'no-key.pem': No such file or directory",
    ]


def test_tls_needs_a_certificate_and_a_key_and_a_listener() -> None:
    assert problems({"tls-listen": [":1"]}) == [
        "tls-listen (--tls-listen): requires tls-cert and tls-key"
    ]
    assert problems({"tls-ca": __file__}) == ["tls-ca (--tls-ca): has no effect without tls-listen"]


def test_a_bad_setting_is_not_blamed_a_second_time_by_the_rules_it_is_part_of() -> None:
    lines = problems({"tls-listen": ["unix:/tmp/x"], "tls-cert": __file__})

    assert lines == ["tls-listen (--tls-listen): 'unix:/tmp/x' is not host:port"]


def test_there_must_be_somewhere_to_listen() -> None:
    assert problems({"listen": [""]}) == [
        "listen (--listen): no address to listen on; set listen or tls-listen"
    ]


def test_an_argument_must_fit_into_the_query_buffer() -> None:
    (line,) = problems({"max-arg-size": "1mb", "query-buffer-limit": "512kb"})

    assert line.startswith(
        "max-arg-size (--max-arg-size): must not be greater than query-buffer-limit"
    )


def test_users_are_a_path_or_tables_of_the_config_file(file: Path) -> None:
    file.write_text('[users.alice]\npassword = "x"\n')

    assert loaded({"config": str(file)}).user_tables == {"alice": {"password": "x"}}
    overridden = loaded({"config": str(file), "users": "users.toml"})
    assert (overridden.users, overridden.user_tables) == ("users.toml", {})


def test_the_listing_shows_where_values_come_from_and_no_secrets(file: Path) -> None:
    file.write_text('maxmemory = "1536kb"\n[users.alice]\npassword = "hidden too"\n')
    config = loaded({"config": str(file)}, {"QUINQUE_REQUIREPASS": "hidden"})

    text = listing(config)

    given, _, defaults = text.partition("\n# Settings at their defaults.\n")
    origins = dict(re.split(r"  +# ", line) for line in given.splitlines()[1:])
    assert origins['maxmemory = "1536kb"'] == str(file)
    assert origins["# requirepass is set and not shown"] == "QUINQUE_REQUIREPASS"
    assert 'fsync = "always"\n' in defaults
    assert "hidden" not in text
    assert "hidden" not in repr(config)


def test_names_follow_from_the_field() -> None:
    setting = SETTINGS["max-clients"]

    assert (setting.attribute, setting.flag) == ("max_clients", "--max-clients")
    assert setting.variable == "QUINQUE_MAX_CLIENTS"


# -- bananaq's names --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "environ", "listen", "store"),
    [
        ({"listen-addr": ":5777"}, {}, [":5777"], "embedded"),
        ({}, {"BANANAQ_LISTEN_ADDR": "10.0.0.7:4777"}, ["10.0.0.7:4777"], "embedded"),
        ({}, {"bananaq_LISTEN_ADDR": "10.0.0.7:4777"}, ["10.0.0.7:4777"], "embedded"),
        ({"redis-addr": "10.0.0.7:6380"}, {}, None, "redis://10.0.0.7:6380"),
        ({"redis-addr": ":6380"}, {}, None, "redis://127.0.0.1:6380"),
        ({"redis-addr": "[::1]:6380"}, {}, None, "redis://[::1]:6380"),
        ({"redis-cluster": "yes"}, {}, None, "redis+cluster://127.0.0.1:6379"),
        (
            {"redis-cluster": "yes", "redis-addr": "10.0.0.7:6380"},
            {"bananaq_LISTEN_ADDR": "127.0.0.1:4777"},
            ["127.0.0.1:4777"],
            "redis+cluster://10.0.0.7:6380",
        ),
        (
            {"redis-cluster": "yes"},
            {"BANANAQ_REDIS_ADDR": "10.0.0.7:6380"},
            None,
            "redis+cluster://10.0.0.7:6380",
        ),
        ({}, {"BANANAQ_REDIS_CLUSTER": "false"}, None, "embedded"),
        ({"store": "embedded"}, {"BANANAQ_REDIS_ADDR": "10.0.0.7:6380"}, None, "embedded"),
        ({"redis-addr": ":6380"}, {"QUINQUE_STORE": "embedded"}, None, "redis://127.0.0.1:6380"),
    ],
    ids=str,
)
def test_bananaqs_names_stand_for_settings(
    flags: dict[str, str], environ: dict[str, str], listen: list[str] | None, store: str
) -> None:
    config = loaded(flags, environ)

    assert config.listen == (listen or Config().listen)
    assert config.store == store


def test_settings_that_bananaq_has_too_are_read_from_its_variables() -> None:
    config = loaded({}, {"BANANAQ_BG_QADD_POOL_SIZE": "7", "BANANAQ_LOG_LEVEL": "warn"})

    assert (config.bg_qadd_pool_size, config.log_level) == (7, "warning")


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        (
            {"redis-addr": "nowhere"},
            {},
            "redis-addr (--redis-addr): 'nowhere' is not an address such as 127.0.0.1:6379",
        ),
        (
            {"redis-addr": ":6379", "store": "embedded"},
            {},
            "store (--redis-addr): --store is given too; give only one of them",
        ),
        (
            {"listen-addr": ":1", "listen": [":2"]},
            {},
            "listen-addr (--listen-addr): --listen is given too; give only one of them",
        ),
    ],
    ids=str,
)
def test_wrong_uses_of_bananaqs_names_are_named(
    flags: dict[str, str | list[str]], environ: dict[str, str], said: str
) -> None:
    assert problems(flags, environ) == [said]
