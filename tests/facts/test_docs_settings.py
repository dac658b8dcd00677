"""Facts about docs/settings.md: its tables of settings and of names are those of the code."""

from __future__ import annotations

import hashlib
import re
import tomllib

from quinque.server.commands.subcommands import with_subcommands
from quinque.server.commands.table import all_commands
from quinque.server.config import SETTINGS, Config, Setting
from quinque.server.config_names import OTHER_NAMES
from quinque.server.users import Users
from tests.facts.pages import text_of
from tests.facts.repository import ROOT

PAGE = ROOT / "docs" / "settings.md"
EXAMPLE = ROOT / "docs" / "examples" / "users.toml"


# When one of these two fails, put the right side between the two markers.


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert _between("settings") == settings_table()


def test_the_table_of_other_names_is_that_of_the_code() -> None:
    assert _between("other names") == names_table()


def test_the_example_of_users_is_good() -> None:
    users, problems = Users.read(Config(users=str(EXAMPLE)))

    assert problems == []
    assert users.unknown_commands({row.name for row in with_subcommands(all_commands())}) == []


def test_the_hash_in_the_example_is_that_of_the_password_beside_it() -> None:
    password = re.search(r"printf %s '(\w+)'", text_of(EXAMPLE))
    table = tomllib.loads(text_of(EXAMPLE))["users"]["watcher"]

    assert password is not None
    assert table["password-sha256"] == hashlib.sha256(password[1].encode()).hexdigest()


def settings_table() -> str:
    """All settings as a Markdown table; those that CONFIG SET changes are live."""
    rows = ["| Setting | Value | Default | Live | Meaning |", "|---|---|---|---|---|"]
    rows += [_row(setting) for setting in SETTINGS.values()]
    return "\n".join(rows) + "\n"


def names_table() -> str:
    """Other names of settings as a Markdown table, with the values that CONFIG SET takes."""
    rows = ["| Name | Values in CONFIG SET | Meaning |", "|---|---|---|"]
    for name, other in OTHER_NAMES.items():
        values, meaning = "none: read-only", other.meaning
        if other.accepts:
            values = other.accepts.shape.replace(" | ", ", ")
        if other.setting:
            values = f"those of `{other.setting}`"
            meaning = f"same as `{other.setting}`" + (f": {meaning}" if meaning else "")
        rows.append(f"| `{name}` | {values} | {meaning} |")
    return "\n".join(rows) + "\n"


def _between(marker: str) -> str:
    page, begin = text_of(PAGE), f"<!-- {marker} -->\n"
    return page[page.index(begin) + len(begin) : page.index(f"<!-- /{marker} -->")]


def _row(setting: Setting) -> str:
    kind = setting.kind
    value = f"{kind.shape}, {kind.unit}" if kind.unit else kind.shape
    cells = [
        f"`{setting.name}`",
        value.replace(" | ", ", "),
        f"`{kind.toml(setting.default)}`",
        "yes" if setting.is_live else "",
        setting.meaning,
    ]
    return f"| {' | '.join(cells)} |"
