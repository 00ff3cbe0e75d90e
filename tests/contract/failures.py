"""The promises about work that is refused or fails: what it leaves, and what a retry gets."""

from __future__ import annotations

from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from tests.cases.support import PaymentRequired

from .harness import BODY, OTHER_BODY, Harness, answering, raising
from .views import Authentication, Permission, Throttle, script


class Failures(Harness):
    def refused_before_the_work(self, status, **request):
        """Send a request that DRF refuses; it leaves nothing."""
        assert self.send(**request).status_code == status
        assert (script.runs, self.orders(), self.keys.count()) == (0, 0, 0)

    def the_retry_runs(self, body=BODY):
        """Send the request (again); it runs, and only its own order is there."""
        response = self.send(body)
        assert (response.status_code, self.orders()) == (201, 1)
        assert "Idempotent-Replayed" not in response.headers

    def test_b36_a_refusal_by_authentication_leaves_the_key_free(self):
        with script.closing(Authentication):
            self.refused_before_the_work(401)
        self.the_retry_runs()

    def test_b36_a_refusal_by_permission_leaves_the_key_free(self):
        with script.closing(Permission):
            self.refused_before_the_work(403)
        self.the_retry_runs()

    def test_b36_a_refusal_by_throttle_leaves_the_key_free(self):
        with script.closing(Throttle):
            self.refused_before_the_work(429)
        self.the_retry_runs()

    def test_a_method_that_the_view_does_not_have_leaves_the_key_free(self):
        self.refused_before_the_work(405, method="DELETE")
        self.the_retry_runs()

    def test_a_body_that_does_not_parse_leaves_the_key_free(self):
        self.refused_before_the_work(400, body="{")
        self.the_retry_runs()

    def test_s8_a_raised_refusal_leaves_nothing_and_the_corrected_request_runs(self):
        script.acts = [raising(ValidationError("no such sku"))]
        assert self.send().status_code == 400
        assert (script.runs, self.orders(), self.keys.count()) == (1, 0, 0)
        self.the_retry_runs(OTHER_BODY)

    def test_a_returned_refusal_leaves_nothing_and_the_corrected_request_runs(self):
        script.acts = [answering(Response({"detail": "sold out"}, status=409))]
        response = self.send()
        assert (response.status_code, response.json()) == (409, {"detail": "sold out"})
        assert (script.runs, self.orders(), self.keys.count()) == (1, 0, 0)
        self.the_retry_runs(OTHER_BODY)

    def test_s6_work_that_raises_leaves_nothing_and_runs_again(self):
        script.acts = [raising(RuntimeError("the payments service is unavailable"))]
        assert self.send().status_code == 500
        assert (script.runs, self.orders(), self.keys.count()) == (1, 0, 0)
        self.the_retry_runs()

    def test_b34_a_returned_503_leaves_nothing_and_runs_again(self):
        script.acts = [answering(Response(status=503))]
        assert self.send().status_code == 503
        assert (script.runs, self.orders(), self.keys.count()) == (1, 0, 0)
        self.the_retry_runs()

    def test_a_raised_402_is_recorded_without_what_it_wrote(self):
        script.acts = [raising(PaymentRequired("declined"))]
        first, retry = self.send(), self.send()
        assert (first.status_code, retry.status_code) == (402, 402)
        assert retry.content == first.content
        assert retry.headers["Idempotent-Replayed"] == "true"
        assert (script.runs, self.orders()) == (1, 0)

    def test_s10_a_worker_that_lost_its_lock_leaves_nothing_and_is_told_to_come_back(self):
        with self.after_the_claim(lambda: self.another_worker_answers(b'{"id": 7}')):
            slow = self.send()
        assert (slow.status_code, slow.json()["code"]) == (409, "in-progress")
        assert (slow.headers["Retry-After"], script.runs, self.orders()) == ("1", 1, 0)
        retry = self.send()
        assert (retry.status_code, retry.json(), script.runs) == (201, {"id": 7}, 1)

    def test_b08_a_worker_that_lost_its_lock_and_fails_releases_nothing(self):
        script.acts = [raising(RuntimeError("too late"))]
        with self.after_the_claim(lambda: self.another_worker_answers(b'{"id": 7}')):
            assert self.send().status_code == 500
        retry = self.send()
        assert (retry.status_code, retry.json(), script.runs) == (201, {"id": 7}, 1)
        assert self.orders() == 0
