"""Transactions, tests, async, hooks."""

from __future__ import annotations

import logging

import pytest
from django.db import connection, transaction
from django.test import TestCase
from rest_framework.decorators import api_view
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.views import APIView

from idempotency_app.decorators import idempotent
from idempotency_app.mixins import IdempotencyMixin
from idempotency_app.models import IdempotencyKey, State
from tests.testapp.models import Order

from .support import Gate, ViewClient, code, create_order, is_replay, make_view, row


def fails_once():
    """Return work that writes an order and, on its first run, is refused after that."""
    first = iter([True])

    def work(request):
        response = create_order(request)
        if next(first, False):
            raise ValidationError("not yet")
        return response

    return work


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("atomic_requests")
class TestAtomicRequests:
    @pytest.mark.row_locks
    def test_b45_a_duplicate_hears_at_once_that_the_first_is_running(self, threads):
        gate = Gate()

        def work(request):
            gate.wait()
            return create_order(request)

        view = make_view(work)
        first = threads.call(ViewClient(view).send, "k45")
        gate.await_entry()
        second = ViewClient(view).send("k45")
        gate.open()
        assert (second.status_code, code(second)) == (409, "in-progress")
        assert first.result(20).status_code == 201
        assert (len(view.calls), Order.objects.count()) == (1, 1)

    def test_b45_a_refused_run_leaves_neither_order_nor_key(self):
        client = ViewClient(make_view(fails_once()))
        assert client.send("k45").status_code == 400
        assert (Order.objects.count(), IdempotencyKey.objects.count()) == (0, 0)
        second = client.send("k45")
        assert (second.status_code, is_replay(second)) == (201, False)

    def test_b45_order_and_record_are_both_there_after_the_answer(self, threads):
        client = ViewClient(make_view())
        client.send("k45")
        seen = threads.call(lambda: (Order.objects.count(), row().state)).result(20)
        assert seen == (1, State.COMPLETE)
        assert is_replay(client.send("k45"))


class ReusedByAHostProject(TestCase):
    """Not pytest's: a host project's own tests are written like this."""

    def test_b47_the_answers_are_right_and_the_transaction_is_whole(self):
        view = make_view(fails_once())
        client = ViewClient(view)
        assert client.send("k47").status_code == 400
        assert client.send("k47").status_code == 201
        assert is_replay(client.send("k47"))
        assert client.send("k47", {"amount": 1}).status_code == 422
        assert Order.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_atomic", [True, False])
def test_b47_a_caller_may_be_in_a_transaction_of_its_own(is_atomic, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", is_atomic)
    client = ViewClient(make_view(fails_once()))
    with transaction.atomic():
        statuses = [client.send("k47").status_code for _ in range(2)]
        assert statuses == [400, 201]
        assert is_replay(client.send("k47"))
        assert client.send("k47", {"amount": 1}).status_code == 422
        assert client.send('"k47').status_code == 400
        assert Order.objects.count() == 1
    assert (Order.objects.count(), row().state) == (1, State.COMPLETE)


@pytest.mark.django_db(transaction=True)
def test_a_caller_in_a_transaction_of_its_own_is_warned_once_a_request(caplog):
    with transaction.atomic():
        ViewClient(make_view()).send("k47")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "runs inside somebody else's transaction" in warnings[0].getMessage()


@pytest.mark.django_db
def test_a_testcase_is_not_warned(caplog):
    ViewClient(make_view()).send("k47")
    assert "somebody else's transaction" not in caplog.text


async def answer_later(*args, **kwargs):
    return Response(status=201)


def test_b48_a_class_with_an_async_handler_is_refused_at_import():
    with pytest.raises(TypeError, match=r"^Payments\.post is async\. "):
        type("Payments", (IdempotencyMixin, APIView), {"post": answer_later})


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["k48", None])
def test_b48_an_async_function_is_refused_at_its_first_request(key):
    view = idempotent()(api_view(["POST"])(answer_later))
    with pytest.raises(TypeError, match="is async"):
        ViewClient(view).send(key)
    assert IdempotencyKey.objects.count() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_atomic", [True, False])
class TestTasks:
    """The view sends a task by `on_commit`; the task reads the order."""

    @pytest.fixture(autouse=True)
    def project(self, is_atomic, monkeypatch):
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", is_atomic)
        self.sent = []

    def sending(self, work):
        def with_task(request):
            transaction.on_commit(lambda: self.sent.append((Order.objects.count(), row().state)))
            return work(request)

        return ViewClient(make_view(with_task), raises=False)

    def test_b66_a_task_is_sent_once_after_the_commit(self):
        client = self.sending(create_order)
        client.send("k66")
        assert is_replay(client.send("k66"))
        assert self.sent == [(1, State.COMPLETE)]

    def test_b66_a_run_that_failed_sends_no_task(self):
        client = self.sending(fails_once())
        assert client.send("k66").status_code == 400
        assert self.sent == []
        assert client.send("k66").status_code == 201
        assert self.sent == [(1, State.COMPLETE)]
