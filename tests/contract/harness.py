"""How a rerun sends requests, ages locks and looks at what became of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

from django.db import connections
from django.db.models import F
from django.test import TransactionTestCase, override_settings
from rest_framework.test import APIClient

from idempotency_app.models import IdempotencyKey
from idempotency_app.policy import Effects
from tests.testapp.models import Order

from .views import script

if TYPE_CHECKING:
    Base = TransactionTestCase
else:
    Base = object

BODY = {"sku": "s1", "amount": 100}
OTHER_BODY = {"sku": "s1", "amount": 200}
PAST_THE_LOCK = timedelta(seconds=61)
PAST_THE_RETENTION = timedelta(hours=24, seconds=61)


class Killed(Exception):
    """Stands for SIGKILL: the work goes no further, and what it wrote is rolled back."""


class Harness(Base):
    effects = Effects.LOCAL
    prefix = ""
    """What the paths of the view with these effects begin with."""
    atomic_requests = False
    alias = "default"
    """The database of the keys, and of the rows that the work writes."""

    # What is emptied after a test: the flush of every app takes longer than the test itself.
    available_apps = ["idempotency_app", "tests.testapp"]
    client_class = APIClient
    client: APIClient

    def setUp(self) -> None:
        super().setUp()
        script.__init__()  # type: ignore[misc]
        # A 500 is an answer too.
        self.client.raise_request_exception = False
        self.enterContext(override_settings(ROOT_URLCONF="tests.contract.views", MIDDLEWARE=[]))
        database = connections[self.alias].settings_dict
        atomic = {"ATOMIC_REQUESTS": self.atomic_requests}
        self.enterContext(mock.patch.dict(database, atomic))

    def callers_block(self) -> AbstractContextManager[Any]:
        """What a request runs in."""
        return nullcontext()

    def hooks_run(self) -> AbstractContextManager[Any]:
        """What makes `on_commit` hooks run."""
        return nullcontext()

    def send(self, body: Any = BODY, **options: Any) -> Any:
        """Send a request; its connection works when it has been answered, whatever it was."""
        with self.callers_block():
            response = self.request(body, **options)
            self.orders()
        return response

    def request(
        self,
        body: Any = BODY,
        *,
        key: str | None = "k",
        account: str = "acme",
        method: str = "POST",
        path: str = "/orders/",
    ) -> Any:
        headers = {"Account": account} | ({} if key is None else {"Idempotency-Key": key})
        content = {} if isinstance(body, dict) else {"content_type": "application/json"}
        send = getattr(self.client, method.lower())
        return send(self.prefix + path, body, headers=headers, **content)

    def orders(self) -> int:
        return Order.objects.using(self.alias).count()

    @property
    def keys(self) -> Any:
        return IdempotencyKey.objects.using(self.alias)

    def leave_a_dead_worker(self, key: str = "k") -> None:
        """Leave what a worker leaves that is killed in its work: a claim, and nothing else."""
        claimed = []

        def die() -> None:
            claimed.append(self.keys.get(key=key))
            raise Killed

        script.acts.append(die)
        self.send(key=key)
        claimed[0].save(using=self.alias, force_insert=True)

    def age(self, by: timedelta) -> None:
        """Let time pass for every key."""
        times = ("locked_at", "locked_until", "created_at", "expires_at")
        self.keys.update(**{name: F(name) - by for name in times})

    def another_worker_answers(self, body: bytes) -> None:
        """Take the key over, as the next retry does once the lock is stale, and complete it."""
        self.age(PAST_THE_LOCK)
        seen = self.keys.get()
        names = ("account", "endpoint", "key", "fingerprint")
        claim = IdempotencyKey.objects.claim(
            **{name: getattr(seen, name) for name in names},
            effects=self.effects,
            lock_timeout=timedelta(seconds=60),
            retention=timedelta(hours=24),
        )
        assert claim.won
        claim.record.complete(status=201, headers=[("Content-Type", "application/json")], body=body)

    def after_the_claim(self, act: Callable[[], object]) -> AbstractContextManager[Any]:
        """Call `act` once, between the claim of the next request and its work."""
        pending = [act]

        def watch(execute: Any, text: str, *arguments: Any) -> Any:
            result = execute(text, *arguments)
            if pending and text.startswith("INSERT") and IdempotencyKey._meta.db_table in text:
                pending.pop()()
            return result

        return connections[self.alias].execute_wrapper(watch)


def answering(response: Any) -> Callable[[], Any]:
    return lambda: response


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act
