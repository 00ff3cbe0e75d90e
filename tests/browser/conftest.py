"""People at the admin, each in a browser of their own, and what goes wrong before their eyes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import override_settings
from playwright.sync_api import Browser, Page, expect, sync_playwright

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LIST = "/admin/idempotency_app/idempotencykey/"
PERMISSIONS = {
    "support": ["view", "view_response", "release", "settle"],
    "viewer": ["view"],
}
expect.set_options(timeout=8_000)  # ms; two shared cores, and five seconds are the default


@pytest.fixture(scope="session", autouse=True)
def strict_pages() -> Iterator[None]:
    """Serve every page under a policy that lets no inline script or style through."""
    middleware = ["tests.browser.urls.content_security_policy", *settings.MIDDLEWARE]
    with override_settings(MIDDLEWARE=middleware, ROOT_URLCONF="tests.browser.urls"):
        yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, in the environment that its event loop on this thread asks for."""
    program = shutil.which("chromium")
    assert program, "There is no chromium: apt-get install chromium"
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser
        browser.close()


class Person:
    """One user in a browser; `troubles` has what the console said and what was not served."""

    def __init__(self, page: Page, url: str, screenshots: Path) -> None:
        self.page, self.url, self.screenshots = page, url, screenshots
        self.troubles: list[str] = []
        page.on("console", self._read)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("requestfailed", self._miss)
        page.on("dialog", self._dismiss)

    def _read(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")

    def _miss(self, request: Any) -> None:
        # What was still loading when the person went on is no failure.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"{request.failure}: {request.url}")

    def _dismiss(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def log_in(self, name: str) -> None:
        """Type name and password, which is the name."""
        self.page.goto(f"{self.url}/admin/")
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(name)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_text(f"Welcome, {name}", exact=False)).to_be_visible()

    def look(self, path: str = LIST) -> Page:
        """Go to the page, which has to be there."""
        response = self.page.goto(f"{self.url}{path}")
        assert response, path
        assert response.status == 200, (response.status, path)
        return self.page

    def choose(self, action: str, *keys: str) -> None:
        """Tick the keys in the list, and go on to the action's confirm page."""
        for key in keys:
            self.page.get_by_role("row").filter(has_text=key).get_by_role("checkbox").check()
        self.page.get_by_label("Action:").select_option(label=action)
        self.page.get_by_role("button", name="Go").click()

    def post(self, path: str, **fields: str) -> int:
        """Send, from within the page and with its cookies, what no form of it offers."""
        cookies = self.page.context.cookies()
        csrf = next(each["value"] for each in cookies if each["name"] == "csrftoken")
        script = """async ([path, fields]) => {
            const sent = { method: "POST", body: new URLSearchParams(fields) };
            const response = await fetch(path, sent);
            await response.text();
            return response.status; }"""
        status: int = self.page.evaluate(script, [path, {**fields, "csrfmiddlewaretoken": csrf}])
        return status

    def forgive(self, text: str) -> int:
        """Forget the troubles that a test wanted; return how many there were."""
        kept = [trouble for trouble in self.troubles if text not in trouble]
        forgiven, self.troubles = len(self.troubles) - len(kept), kept
        return forgiven

    def keep(self, name: str) -> None:
        """Keep a screenshot of the whole page."""
        self.page.screenshot(path=self.screenshots / f"{name}.png", full_page=True)


Meet = Callable[..., Person]


@pytest.fixture
def meet(live_server, chromium, tmp_path) -> Iterator[Meet]:
    """Let a user come: `meet("support", color_scheme="dark")`. Nothing may go wrong for one."""
    folder = Path(os.environ.get("BROWSER_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    people: list[Person] = []

    def meet(name: str, **options: Any) -> Person:
        if not User.objects.filter(username=name).exists():
            register(name)
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        person = Person(context.new_page(), live_server.url, folder)
        people.append(person)
        person.log_in(name)
        return person

    yield meet
    for person in people:
        person.page.wait_for_load_state("load")
        person.page.context.close()
    assert [person.troubles for person in people if person.troubles] == []


def register(name: str) -> None:
    """Make one of the demo's staff; `boss` may do everything."""
    if name == "boss":
        User.objects.create_superuser(name, password=name)
        return
    user = User.objects.create_user(name, password=name, is_staff=True)
    codenames = [f"{each}_idempotencykey" for each in PERMISSIONS[name]]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
