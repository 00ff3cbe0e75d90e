"""Whether the admin can be read: light and dark, on a small screen, at 200 %, without a mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.factories import make_key

from .conftest import LIST

# A window of 1280 pixels at 200 % has 640 of its own.
ZOOM: dict[str, Any] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "light-zoomed": {"color_scheme": "light", **ZOOM},
    "dark-zoomed": {"color_scheme": "dark", **ZOOM},
}
EVERY_TEXT_AS_LONG_AS_IT_MAY_BE = {
    "key": "k" * 255,
    "account": f"tenant:{'a' * 248}",
    "endpoint": f"POST {'e' * 250}",
    "steps": f'{{"{"w" * 100}": {{"result": {{"id": "{"x" * 400}"}}}}}}',
}
FOCUSED = "document.activeElement.innerText || document.activeElement.name"
LOOKING = Path(__file__).with_name("looking.js").read_text()


@pytest.fixture
def keys(live_server):
    """One row in each state, and one of long texts without a blank."""
    states = ("in_flight", "stale", "unresolved", "released", "complete", "expired", "remembered")
    rows = {state: make_key(key=f"{state}-1", **{state: True}) for state in states}
    long = make_key(complete=True, effects="repeatable", **EVERY_TEXT_AS_LONG_AS_IT_MAY_BE)
    return {**rows, "long": long}


def assert_readable(person, name):
    person.keep(name)
    found = person.page.evaluate(LOOKING)
    assert found == {"overflow": 0, "faint": [], "nameless": []}, name


@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_fits_its_screen_and_can_be_read(meet, keys, screen):
    boss = meet("boss", **SCREENS[screen])
    pages = {"list": "", "list-none": "?q=nowhere"}
    pages |= {f"key-{state}": f"{record.pk}/change/" for state, record in keys.items()}
    pages["delete"] = f"{keys['complete'].pk}/delete/"
    pages["history"] = f"{keys['complete'].pk}/history/"
    for name, path in pages.items():
        boss.look(f"{LIST}{path}")
        assert_readable(boss, f"{screen}-{name}")
    for action, state in (
        ("Release a stale lock", "stale"),
        ("Settle an unknown outcome", "unknown"),
    ):
        boss.look(f"{LIST}?state={state}")
        boss.page.locator("#action-toggle").check()
        boss.page.get_by_label("Action:").select_option(label=action)
        boss.page.get_by_role("button", name="Go").click()
        expect(boss.page.get_by_label("Reason")).to_be_visible()
        assert_readable(boss, f"{screen}-confirm-{state}")


@pytest.mark.parametrize("screen", SCREENS)
def test_an_empty_list_says_so(meet, screen):
    boss = meet("boss", **SCREENS[screen])
    expect(boss.look().get_by_text("There are no keys yet")).to_be_visible()
    assert_readable(boss, f"{screen}-list-empty")


def test_a_stale_lock_is_released_with_the_keyboard_alone(meet, live_server):
    record = make_key(stale=True)
    boss = meet("boss")
    page = boss.look(f"{LIST}{record.pk}/change/")

    def tab_to(text):
        for _ in range(40):
            page.keyboard.press("Tab")
            if text == page.evaluate(FOCUSED):
                return
        raise AssertionError(f"The keyboard never comes to {text}.")

    tab_to("Release the stale lock")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Reason")).to_be_visible()
    tab_to("reason")
    page.keyboard.type("worker 3 was killed")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Done: 1 key.")).to_be_visible()
