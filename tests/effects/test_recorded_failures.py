"""What UNREPEATABLE work answers once its effect has begun is recorded, whatever it is."""

from __future__ import annotations

import logging

import pytest
from django.core.signals import got_request_exception
from django.db import OperationalError
from django.http import HttpResponse
from rest_framework.response import Response

from idempotency_app.models import IdempotencyKey, State
from idempotency_app.policy import Effects, Idempotency
from tests.cases.support import age, code, is_replay, row

from .support import (
    IN_STEPS,
    REPEATABLE,
    UNREPEATABLE,
    charging,
    each_unrepeatable,
    make_client,
    raising,
)

pytestmark = pytest.mark.django_db

BROKEN = ValueError("broken after the effect")


@pytest.fixture
def client(network):
    return make_client(charging(network, raising(BROKEN)), UNREPEATABLE)


@pytest.fixture
def handler500(client):
    """Let the project have an error page of its own."""

    def answer(request):
        return HttpResponse(b'{"sorry": "500"}', "application/json", 500, headers={"ETag": '"7"'})

    client.handler.routes.handler500 = answer


@each_unrepeatable
def test_s7_b_an_exception_is_recorded_as_the_project_answers_it(network, policy):
    client = make_client(charging(network, raising(BROKEN)), policy)
    client.handler.routes.handler500 = lambda request: HttpResponse(b"sorry", status=500)
    first, retry = client.send(), client.send()
    assert (first.status_code, first.content, is_replay(first)) == (500, b"sorry", False)
    assert (retry.status_code, retry.content, is_replay(retry)) == (500, b"sorry", True)
    assert len(network.asked) == 1


@pytest.mark.usefixtures("handler500")
def test_s7_b_the_replay_has_the_content_headers_of_the_error_page(client):
    client.send()
    retry = client.send()
    assert retry.json() == {"sorry": "500"}
    assert (retry.headers["Content-Type"], retry.headers["ETag"]) == ("application/json", '"7"')


def test_s7_b_a_page_that_shows_the_code_is_not_recorded(client, settings):
    settings.DEBUG = True
    first, retry = client.send(), client.send()
    assert b"broken after the effect" in first.content
    assert (retry.status_code, is_replay(retry)) == (500, True)
    assert b"broken" not in retry.content
    assert b"Server Error (500)" in retry.content


def test_s7_b_the_exception_itself_goes_on(network):
    client = make_client(charging(network, raising(BROKEN)), UNREPEATABLE, raises=True)
    with pytest.raises(ValueError, match="after the effect") as told:
        client.send()
    assert told.value is BROKEN
    assert row().state == State.COMPLETE


def test_s7_b_it_is_signalled_and_logged_once_and_a_replay_neither(client, caplog):
    signals = []

    def note(sender, request, **kwargs):
        signals.append(request)

    got_request_exception.connect(note)
    try:
        client.send()
        logged = [record.name for record in caplog.records if record.levelno >= logging.ERROR]
        assert (len(signals), logged) == (1, ["django.request"])
        caplog.clear()
        client.send()
    finally:
        got_request_exception.disconnect(note)
    assert len(signals) == 1
    assert not any(record.exc_info for record in caplog.records)


def test_s7_b_the_projects_exception_handler_runs_once(network):
    handled = []

    def handler(error, context):
        handled.append(error)

    client = make_client(
        charging(network, raising(BROKEN)),
        UNREPEATABLE,
        get_exception_handler=lambda self: handler,
    )
    client.send()
    client.send()
    assert handled == [BROKEN]


def test_an_error_page_that_fails_itself_leaves_the_question_open(client, caplog):
    def answer(request):
        raise LookupError("the error page is broken")

    client.handler.routes.handler500 = answer
    with pytest.raises(LookupError, match="the error page"):
        client.send()
    assert (row().state, row().response_status) == (State.IN_PROGRESS, None)
    assert "an operator has to settle it" in caplog.text
    age(61)
    assert code(client.send()) == "outcome-unknown"


@each_unrepeatable
def test_an_error_page_that_is_too_large_is_not_kept_and_nothing_runs_again(network, policy):
    policy = Idempotency(max_response_bytes=4).over(policy)
    client = make_client(charging(network, raising(BROKEN)), policy)
    assert client.send().status_code == 500
    assert code(client.send()) == "response-not-kept"
    assert len(network.asked) == 1


class Deadlock(OperationalError):
    """As MySQL's error reaches the work through Django: it was the victim of a race."""

    def __init__(self):
        super().__init__(1213, "Deadlock found when trying to get lock")


@each_unrepeatable
def test_s7_b_a_race_that_the_work_lost_in_the_database_is_recorded_too(network, policy):
    client = make_client(charging(network, raising(Deadlock())), policy)
    first, retry = client.send(), client.send()
    assert (first.status_code, retry.status_code) == (500, 500)
    assert (is_replay(retry), row().state) == (True, State.COMPLETE)
    assert len(network.asked) == 1


def test_a_race_that_repeatable_work_lost_in_the_database_releases_the_key(network):
    client = make_client(charging(network, raising(Deadlock())), REPEATABLE)
    assert client.send().status_code == 500
    assert row().state == State.RELEASED
    assert client.send().status_code == 201
    assert len(network.asked) == 1


@pytest.mark.parametrize("status", [204, 302, 400, 404, 418, 429, 500, 503])
@each_unrepeatable
def test_s7_b_every_status_is_recorded_once_the_effect_has_begun(network, policy, status):
    client = make_client(charging(network, lambda: Response(status=status)), policy)
    first, retry = client.send(), client.send()
    assert (first.status_code, retry.status_code) == (status, status)
    assert (is_replay(first), is_replay(retry)) == (False, True)
    assert len(network.asked) == 1


def test_no_list_of_statuses_keeps_an_answer_from_being_recorded(network):
    policy = Idempotency(effects=Effects.UNREPEATABLE, record_statuses=set())
    client = make_client(charging(network, lambda: Response(status=402)), policy)
    client.send()
    assert (client.send().status_code, len(network.asked)) == (402, 1)


def test_s12_a_a_promise_to_act_in_steps_only_lets_a_refusal_go(network):
    client = make_client(charging(network, lambda: Response(status=400), "before"), IN_STEPS)
    assert client.send().status_code == 400
    assert not IdempotencyKey.objects.exists()
    corrected = client.send(data={"sku": "s1", "amount": 7})
    assert (corrected.status_code, is_replay(corrected)) == (201, False)


def test_a_view_that_has_become_unrepeatable_records_what_began_as_repeatable(network):
    """Its row says `repeatable`, and its finished step holds it until somebody settles it."""
    work = charging(network, raising(BROKEN))
    make_client(work, REPEATABLE).send()
    assert code(make_client(work, UNREPEATABLE).send()) == "outcome-unknown"
    assert len(network.asked) == 1
