"""The promises about who runs the work, and what everybody else is told."""

from __future__ import annotations

from django.db.models import F

from idempotency_app.models import IdempotencyKey

from .harness import BODY, OTHER_BODY, PAST_THE_LOCK, PAST_THE_RETENTION, Harness
from .views import Permission, script


class Answers(Harness):
    def test_the_first_call_runs_and_its_answer_bears_no_mark(self):
        response = self.send()
        assert (response.status_code, script.runs, self.orders()) == (201, 1, 1)
        assert "Idempotent-Replayed" not in response.headers
        assert self.keys.get().state == "complete"

    def test_s2_a_retry_gets_the_same_bytes_and_the_mark(self):
        first, retry = self.send(), self.send()
        assert (retry.status_code, retry.content) == (201, first.content)
        assert retry.headers["Location"] == first.headers["Location"]
        assert retry.headers["Content-Type"] == first.headers["Content-Type"]
        assert retry.headers["Idempotent-Replayed"] == "true"
        assert (script.runs, self.orders()) == (1, 1)

    def test_s4_another_body_is_refused_and_nothing_runs(self):
        self.send()
        response = self.send(OTHER_BODY)
        assert (response.status_code, response.json()["code"]) == (422, "key-reused")
        assert (script.runs, self.orders()) == (1, 1)

    def test_s3_a_duplicate_of_a_request_in_flight_is_told_when_to_come_back(self):
        self.leave_a_dead_worker()
        response = self.send()
        assert (response.status_code, response.json()["code"]) == (409, "in-progress")
        assert 1 <= int(response.headers["Retry-After"]) <= 30
        assert (script.runs, self.orders()) == (1, 0)

    def test_b19_another_body_is_refused_while_the_first_is_in_flight(self):
        self.leave_a_dead_worker()
        response = self.send(OTHER_BODY)
        assert (response.status_code, response.json()["code"]) == (422, "key-reused")
        assert "Retry-After" not in response.headers
        assert (script.runs, self.orders()) == (1, 0)

    def test_s9_a_stale_lock_is_taken_over(self):
        self.leave_a_dead_worker()
        dead = self.keys.get().fencing_token
        self.age(PAST_THE_LOCK)
        assert self.send().status_code == 201
        assert self.keys.get().fencing_token != dead
        assert (script.runs, self.orders()) == (2, 1)

    def test_s13_another_tenant_runs_under_the_same_key_and_each_gets_its_own_answer(self):
        first = self.send(account="acme")
        second = self.send(account="globex")
        assert (second.status_code, script.runs, self.orders()) == (201, 2, 2)
        assert "Idempotent-Replayed" not in second.headers
        assert self.send(account="acme").json() == first.json() != second.json()
        assert self.send(account="globex").json() == second.json()

    def test_b16_another_endpoint_runs_under_the_same_key_and_each_gives_its_own_answer(self):
        first = self.send(path="/orders/")
        second = self.send(path="/required/")
        assert (second.status_code, script.runs, self.orders()) == (201, 2, 2)
        assert "Idempotent-Replayed" not in second.headers
        assert self.send(path="/orders/").json() == first.json() != second.json()
        assert self.send(path="/required/").json() == second.json()

    def test_s5_a_required_key_that_is_missing_is_asked_for(self):
        response = self.send(key=None, path="/required/")
        assert (response.status_code, response.json()["code"]) == (400, "key-missing")
        assert (script.runs, self.orders()) == (0, 0)

    def test_b41_a_malformed_key_is_refused(self):
        response = self.send(key='"k')
        assert (response.status_code, response.json()["code"]) == (400, "key-invalid")
        assert (script.runs, self.orders(), self.keys.count()) == (0, 0, 0)

    def test_a_request_without_a_key_runs_each_time(self):
        first, second = self.send(key=None), self.send(key=None)
        assert (first.status_code, second.status_code) == (201, 201)
        assert (script.runs, self.orders(), self.keys.count()) == (2, 2, 0)

    def test_b44_a_key_changes_nothing_on_get(self):
        before = self.send(method="GET")
        self.send()
        after = self.send(method="GET")
        assert (before.json(), after.json()) == ({"orders": 0}, {"orders": 1})
        assert self.keys.count() == 1

    def test_an_expired_key_runs_anew_and_takes_any_body(self):
        first = self.send(BODY)
        self.age(PAST_THE_RETENTION)
        second, retry = self.send(OTHER_BODY), self.send(OTHER_BODY)
        assert (second.status_code, second.content == first.content) == (201, False)
        assert (retry.content, script.runs, self.orders()) == (second.content, 2, 2)

    def test_b30_a_replay_passes_the_permissions_again(self):
        first = self.send()
        with script.closing(Permission):
            assert self.send().status_code == 403
        assert self.send().content == first.content
        assert (script.runs, self.orders()) == (1, 1)

    def test_s22_the_reaper_takes_the_expired_and_no_live_lock(self):
        self.send(key="expired")
        self.age(PAST_THE_RETENTION)
        self.send(key="recorded")
        self.leave_a_dead_worker(key="in-flight")
        self.keys.filter(key="in-flight").update(expires_at=F("expires_at") - PAST_THE_RETENTION)
        assert (IdempotencyKey.objects.reap(), IdempotencyKey.objects.reap()) == (1, 0)
        assert set(self.keys.values_list("key", flat=True)) == {"recorded", "in-flight"}
