"""The confirm page: what qualifies and what does not, the consequence, and the form."""

from __future__ import annotations

import re

import pytest

from idempotency_app.models import IdempotencyKey
from tests.factories import make_key, row

from .acting import FOR, RECORD, RELEASE, SETTLE, ask, confirm, each_action, fields_of, history
from .test_pages import LIST

pytestmark = pytest.mark.django_db


@each_action
@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_without_a_reason_nothing_is_changed_and_what_was_typed_is_kept(support, action, reason):
    record = make_key(**FOR[action])
    before = row(record)
    fields = {**RECORD, "body": "typed <b>", "reason": reason}
    got = confirm(support, action, ask(support, action, record), **fields)
    assert re.search(r'id="id_reason_error".{0,90}(required|at most 500)', got, re.DOTALL)
    assert 'aria-invalid="true"' in got
    if action == SETTLE:
        assert "typed &lt;b&gt;</textarea>" in got
    assert f'name="seen" value="{record.pk}:' in got
    assert row(record) == before
    assert history() == []


def test_the_confirm_page_lists_what_qualifies_and_says_why_the_others_do_not(support):
    stale = make_key(stale=True, key="k" * 60)
    others = [
        make_key(),
        make_key(unresolved=True),
        make_key(released=True),
        make_key(complete=True),
    ]
    got = ask(support, RELEASE, stale, *others)
    assert "1 of 5 selected keys qualifies." in got
    fits, left = got.split("<h2>Left alone</h2>")
    assert f"POST orders/, auth.user:7, key {'k' * 40}…" in fits
    assert re.findall(r"</a>; ([^<]*)</li>", left) == [
        "complete: there is no lock to release",
        "in flight: a worker holds its lock, which is live",
        "waiting for a retry: there is no lock to release",
        "outcome unknown: its effect has begun and must not be repeated: settle it",
    ]
    assert got.count('name="seen"') == 1


def test_the_confirm_page_of_settling_says_why_too(support):
    unknown = make_key(unresolved=True)
    others = [make_key(), make_key(stale=True), make_key(complete=True)]
    got = ask(support, SETTLE, unknown, *others)
    assert "1 of 4 selected keys qualifies." in got
    assert re.findall(r"</a>; ([^<]*)</li>", got.split("<h2>Left alone</h2>")[1]) == [
        "complete: there is nothing open to settle",
        "in flight: a worker holds its lock, and may still end it",
        "stale lock: nothing had begun outside: release its lock",
    ]


@each_action
def test_where_nothing_qualifies_there_is_no_form(support, action):
    got = ask(support, action, make_key(complete=True))
    assert "0 of 1 selected key qualify." in got
    assert 'name="reason"' not in got
    assert "Back to the keys" in got


def test_more_than_a_person_can_read_is_not_done_at_once(support):
    for _ in range(102):
        make_key(stale=True)
    first = IdempotencyKey.objects.first()
    assert first
    posted = {"action": RELEASE, "_selected_action": [str(first.pk)], "select_across": "1"}
    got = support.post(LIST, posted).content.decode()
    assert "100 of 100 selected keys qualify. More are selected; these are the first 100." in got
    assert "Done: 100 keys." in confirm(support, RELEASE, got, reason="the host burnt down")
    assert IdempotencyKey.objects.count() == 2
    assert len(history()) == 100


@each_action
def test_the_confirm_page_needs_no_script_and_labels_each_field(support, action):
    got = ask(support, action, make_key(**FOR[action])).split('id="content-main"')[1]
    main = got.split("</form>")[0]
    assert "<script" not in main
    assert "style=" not in main
    assert "csrfmiddlewaretoken" in main
    asked = set(re.findall(r'id="(id_\w+)"', main)) - {"id_outcome", "id_body_helptext"}
    assert asked
    assert asked == set(re.findall(r'<label for="(id_\w+)"', main))
    assert ("<legend" in main) == (action == SETTLE)


@each_action
def test_script_in_a_key_is_inert_on_the_confirm_page(support, action):
    script = "<script>alert(1)</script>"
    values = {"key": script, "account": script, "endpoint": script}
    records = [make_key(**FOR[action], **values), make_key(complete=True, key=script)]
    shown = ask(support, action, *records)
    assert script not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    done = confirm(support, action, shown, **{**RECORD, "reason": f"{script} because"})
    assert "Done: 1 key." in done
    assert script not in done
    for view in ("change", "history"):
        assert script not in support.get(f"{LIST}{records[0].pk}/{view}/").content.decode()


@each_action
def test_the_list_keeps_its_filter(support, action):
    record = make_key(**FOR[action])
    filtered = f"{LIST}?state=stale"
    shown = ask(support, action, record, to=filtered)
    assert f'action="{filtered}"' in shown
    response = support.post(filtered, fields_of(action, shown, **RECORD))
    assert response.headers["Location"] == filtered


def test_a_row_that_has_left_the_filter_meanwhile_is_not_lost_from_the_page(support):
    record = make_key(unresolved=True)
    filtered = f"{LIST}?state=unknown"
    posted = fields_of(
        SETTLE, ask(support, SETTLE, record, to=filtered), **{**RECORD, "reason": ""}
    )
    confirm(support, SETTLE, ask(support, SETTLE, record), **RECORD)
    got = support.post(filtered, posted).content.decode()
    assert "0 of 1 selected key qualify." in got
    assert "complete: changed since it was shown" in got
