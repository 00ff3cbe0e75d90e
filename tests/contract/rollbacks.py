"""The promises that only LOCAL work gets: what it wrote goes with its response, or with nothing."""

from __future__ import annotations

from django.db import transaction
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from .harness import Harness, answering, raising
from .views import script


class Rollbacks(Harness):
    def test_b45_work_without_a_key_is_rolled_back_where_the_project_says_so(self):
        script.acts = [raising(ValidationError("no such sku"))] * 2
        assert self.send(key=None).status_code == 400
        assert self.send(path="/off/").status_code == 400
        assert (script.runs, self.orders()) == (2, 0 if self.atomic_requests else 2)

    def test_a_returned_402_is_recorded_together_with_what_it_wrote(self):
        script.acts = [answering(Response({"detail": "declined"}, status=402))]
        first, retry = self.send(), self.send()
        assert (first.status_code, retry.status_code) == (402, 402)
        assert retry.content == first.content
        assert retry.headers["Idempotent-Replayed"] == "true"
        assert (script.runs, self.orders()) == (1, 1)

    def test_a_returned_402_in_a_transaction_that_must_be_rolled_back_is_recorded(self):
        script.acts = [lambda: self.marked_for_rollback(Response(status=402))]
        first, retry = self.send(), self.send()
        assert (first.status_code, retry.status_code) == (402, 402)
        assert retry.headers["Idempotent-Replayed"] == "true"
        assert (script.runs, self.orders()) == (1, 0)

    def test_a_success_in_a_transaction_that_must_be_rolled_back_is_not_recorded(self):
        script.acts = [lambda: self.marked_for_rollback(None)]
        assert self.send().status_code == 500
        assert (script.runs, self.orders(), self.keys.count()) == (1, 0, 0)
        assert (self.send().status_code, self.orders()) == (201, 1)

    def test_b66_a_hook_on_commit_finds_the_response_recorded_and_no_replay_runs_it(self):
        seen = []
        script.acts = [lambda: self.on_commit(lambda: seen.append(self.keys.get().state))]
        with self.hooks_run():
            self.send()
            self.send()
        assert seen == ["complete"]

    def test_b66_a_hook_on_commit_of_work_that_is_rolled_back_never_runs(self):
        seen = []

        def refuse():
            self.on_commit(lambda: seen.append("ran"))
            return Response(status=400)

        script.acts = [refuse]
        with self.hooks_run():
            self.send()
            assert (self.send().status_code, self.orders()) == (201, 1)
        assert seen == []

    def marked_for_rollback(self, response):
        """What the work does by catching a database error."""
        transaction.set_rollback(True, using=self.alias)
        return response

    def on_commit(self, hook):
        """What the work does to send a task."""
        transaction.on_commit(hook, using=self.alias)
