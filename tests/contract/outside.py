"""The promises about work whose effect has happened outside, in a step, before it fails."""

from __future__ import annotations

import pytest
from rest_framework.response import Response

from idempotency_app.policy import Effects

from .harness import OTHER_BODY, PAST_THE_LOCK, PAST_THE_RETENTION, Harness, answering, raising
from .views import script


class Outside(Harness):
    def leave_a_worker_that_died_after_its_step(self):
        script.acts_after = [raising(SystemExit())]
        with self.callers_block(), pytest.raises(SystemExit):
            self.request()


class Repeatable(Outside):
    effects = Effects.REPEATABLE
    prefix = "/repeatable"

    def goes_on_after_its_step(self):
        """Send another body, which is refused, and then the first: its order is made already."""
        assert self.send(OTHER_BODY).status_code == 422
        retry = self.send()
        assert (retry.status_code, script.runs, self.orders()) == (201, 2, 1)
        assert "Idempotent-Replayed" not in retry.headers
        assert self.send().content == retry.content

    def test_s25_work_that_raises_after_its_step_goes_on_after_it(self):
        script.acts_after = [raising(RuntimeError("broken after the effect"))]
        assert self.send().status_code == 500
        assert self.keys.get().state == "released"
        self.goes_on_after_its_step()

    def test_s25_work_that_is_refused_after_its_step_goes_on_after_it(self):
        script.acts_after = [answering(Response(status=409))]
        assert self.send().status_code == 409
        self.age(PAST_THE_RETENTION)
        self.goes_on_after_its_step()

    def test_s11_work_whose_worker_died_after_its_step_goes_on_after_it(self):
        self.leave_a_worker_that_died_after_its_step()
        self.age(PAST_THE_LOCK)
        self.goes_on_after_its_step()


class Unrepeatable(Outside):
    effects = Effects.UNREPEATABLE
    prefix = "/unrepeatable"

    def answers_the_same_again(self, first):
        assert self.send(OTHER_BODY).status_code == 422
        retry = self.send()
        assert (retry.status_code, retry.content) == (first.status_code, first.content)
        assert retry.headers["Idempotent-Replayed"] == "true"
        assert (script.runs, self.orders()) == (1, 1)

    def test_s7_b_work_that_raises_after_its_step_is_answered_the_same_again(self):
        script.acts_after = [raising(RuntimeError("broken after the effect"))]
        first = self.send()
        assert first.status_code == 500
        self.answers_the_same_again(first)

    def test_s7_b_work_that_is_refused_after_its_step_is_answered_the_same_again(self):
        script.acts_after = [answering(Response({"detail": "late"}, status=409))]
        first = self.send()
        assert first.json() == {"detail": "late"}
        self.answers_the_same_again(first)

    def test_s12_b_work_whose_worker_died_after_its_step_is_held(self):
        self.leave_a_worker_that_died_after_its_step()
        self.age(PAST_THE_RETENTION)
        response = self.send()
        assert (response.status_code, response.json()["code"]) == (409, "outcome-unknown")
        assert self.keys.unresolved().count() == 1
        assert self.keys.get().settle(status=201, headers=[], body=b"7", retention=PAST_THE_LOCK)
        assert (self.send().content, script.runs, self.orders()) == (b"7", 1, 1)
