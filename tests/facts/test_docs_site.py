"""Facts about the site of the documentation: what a strict build would refuse, without a build."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.facts.pages import links, pages, text_of
from tests.facts.repository import ROOT, name
from tools.docs_site import API, INDEX, linked_files, navigation, public_names

GROUPS = ["Home", "Tutorials", "Guides", "Reference", "Explanation"]
# GitHub reads a list without a blank line before it, and one within a list at any indent.
NO_LIST = re.compile(r"^(?![-|#>` ]|\d+\. ).+\n(?:- |\d+\. )|^ {1,3}- ", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_the_navigation_has_every_page_once_in_the_groups_of_the_index() -> None:
    found = Counter(_pages_of(navigation()))
    expected = {name(page) for page in pages()} | set(API)

    assert [title for group in navigation() for title in group] == GROUPS
    assert {page: found[page] for page in expected if found[page] != 1} == {}
    assert set(found) == expected


def test_links_stay_in_the_repository() -> None:
    outside = [
        f"{name(page)}: {target}"
        for page in pages()
        for target, _ in links(page)
        if not target.is_relative_to(ROOT) or target == ROOT
    ]

    assert outside == []
    assert all(path.is_file() for path in linked_files())


def test_a_heading_that_a_link_names_is_the_only_one_of_that_name() -> None:
    """The second one has another anchor on the site than on GitHub."""
    for target, heading in {link for page in pages() for link in links(page) if link[1]}:
        headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text_of(target)), re.MULTILINE)
        named = [re.sub(r"[^\w\- ]", "", it.strip().lower()).replace(" ", "-") for it in headings]

        assert named.count(heading) == 1, f"{name(target)}#{heading}"


def test_lists_are_lists_on_the_site_too() -> None:
    found = [
        f"{name(page)}: {match[0]!r}"
        for page in pages()
        for match in NO_LIST.finditer(FENCED.sub("", text_of(page)))
    ]

    assert found == []


def test_the_reference_has_what_programs_import() -> None:
    for _, modules in API.values():
        for module in modules:
            assert public_names(module), module


def test_the_index_says_how_to_build_the_site() -> None:
    assert "`make docs`" in text_of(INDEX)
    assert "\ndocs:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def _pages_of(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from _pages_of(entry)
