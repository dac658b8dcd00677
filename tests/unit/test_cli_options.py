"""The command line: help, example, checks of the settings, and exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quinque.cli.main import main
from quinque.server.config import SETTINGS
from quinque.server.config_text import example
from quinque.version import __version__, build


def quinque(*argv: str, environ: Mapping[str, str] | None = None) -> Result:
    # None takes a variable of the developer's own away.
    own = {name: None for name in os.environ if name.startswith("QUINQUE_")}
    return CliRunner().invoke(main, argv, env={**own, **(environ or {})})


def test_help_of_serve_shows_every_setting_with_unit_default_and_variable() -> None:
    text = " ".join(quinque("serve", "-h").output.split())

    for setting in SETTINGS.values():
        assert setting.flag in text
        assert f"env: {setting.variable}]" in text
        assert setting.meaning in text
    assert "[bytes, 64kb to 4gb; default: 64mb; env: QUINQUE_SEGMENT_SIZE]" in text
    assert "[host:port; repeatable; default: none; env: QUINQUE_TLS_LISTEN]" in text


def test_the_example_is_printed_alone() -> None:
    result = quinque("serve", "--example")

    assert (result.exit_code, result.stdout, result.stderr) == (0, example(), "")


def test_the_version_is_printed() -> None:
    assert quinque("--version").output == f"quinque, version {__version__} ({build()})\n"


def test_good_settings_pass_the_check() -> None:
    result = quinque("serve", "--check-config", "--maxmemory", "1gb", "--log-json")

    assert (result.exit_code, result.stdout) == (0, "the settings are valid\n")


def test_who_asks_brokers_from_the_same_shell_can_start_one() -> None:
    environ = {"QUINQUE_URL": "production", "QUINQUE_USERNAME": "ann", "QUINQUE_PASSWORD": "x"}
    environ["QUINQUE_PASSWORD_FILE"] = "/run/secrets/password"
    environ["QUINQUE_URL_FILE"] = "/run/secrets/url"

    assert quinque("serve", "--check-config", environ=environ).exit_code == 0


def test_a_broker_starts_in_the_shell_that_compiled_it() -> None:
    environ = {"QUINQUE_COMPILED": "1", "QUINQUE_COMPILED_LEVEL": "0"}

    assert quinque("serve", "--check-config", environ=environ).exit_code == 0


def test_flags_reach_the_settings() -> None:
    result = quinque(
        *("serve", "--print-config", "--listen", ":1", "--listen", "unix:/tmp/x"),
        *("--log-json", "--slowlog-log-slower-than", "-1"),
        environ={"QUINQUE_LOG_LEVEL": "debug"},
    )

    assert result.exit_code == 0
    assert re.findall(r"^(\S.*\S) +# (\S+)$", result.stdout, re.MULTILINE) == [
        ('listen = [":1", "unix:/tmp/x"]', "--listen"),
        ('log-level = "debug"', "QUINQUE_LOG_LEVEL"),
        ("log-json = true", "--log-json"),
        ("slowlog-log-slower-than = -1", "--slowlog-log-slower-than"),
    ]


def test_a_flag_can_be_switched_off_over_the_environment() -> None:
    environ = {"QUINQUE_LOG_JSON": "yes"}

    result = quinque("serve", "--print-config", "--no-log-json", environ=environ)

    assert "log-json = false  # --log-json\n" in result.stdout


def test_bad_settings_and_users_go_to_stderr_a_line_each_with_code_2(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text("[users.bob]\n")

    result = quinque(
        *("serve", "--maxmemory", "lots", "--users", str(users)),
        environ={"QUINQUE_NO_SUCH": "1"},
    )

    assert (result.exit_code, result.stdout) == (2, "")
    size = "a size from 0 to 1024tb (bytes, or a whole number with kb, mb, gb or tb)"
    assert result.stderr.splitlines() == [
        f"quinque: maxmemory (--maxmemory): 'lots' is not {size}",
        "quinque: QUINQUE_NO_SUCH (environment): unknown setting",
        (
            f"quinque: users.bob.password ({users}): is missing;"
            " only the user 'default' can have no password"
        ),
    ]


def test_an_unknown_flag_ends_with_code_2() -> None:
    result = quinque("serve", "--max-memory", "1gb")

    assert result.exit_code == 2
    assert "--max-memory" in result.stderr


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_no_color_is_obeyed(no_color: str, is_coloured: bool) -> None:
    result = CliRunner().invoke(
        main, ["serve", "--maxmemory", "x"], env={"NO_COLOR": no_color}, color=True
    )

    assert ("\x1b[" in result.stderr) is is_coloured


def test_help_does_not_load_the_broker() -> None:
    code = "import sys, quinque.cli.main; print('asyncio' in sys.modules)"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == "False\n"


def test_the_package_runs_as_a_module() -> None:
    argv = [sys.executable, "-m", "quinque", "--version"]

    shown = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert shown.stdout == f"quinque, version {__version__} ({build()})\n"


def test_bananaqs_flags_reach_the_settings() -> None:
    flags = ("--listen-addr=127.0.0.1:5777", "--redis-cluster", "--redis-addr=127.0.0.1:6380")

    result = quinque("serve", "--print-config", *flags)

    assert result.exit_code == 0
    assert "127.0.0.1:5777" in result.stdout
    assert "--listen-addr" in result.stdout
