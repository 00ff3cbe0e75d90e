"""The Demo-... headers: what is malformed is told, and nothing runs."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from demo_project.faults import DemoAnswer, DemoFailure, Faults, for_network, lose_replies

from .live import CONTENT, LiveDemo

MALFORMED = [
    ("Demo-Delay", "soon"),
    ("Demo-Delay", "nan"),
    ("Demo-Delay", "inf"),
    ("Demo-Delay", "-1"),
    ("Demo-Delay", "1e400"),
    ("Demo-Delay", "3600"),
    ("Demo-Lock", "x"),
    ("Demo-Lock", "0"),
    ("Demo-Lock", "-3"),
    ("Demo-Lock", "nan"),
    ("Demo-Lock", "1e300"),
    ("Demo-Fail", "sometimes"),
    ("Demo-Die", "after"),
    ("Demo-Status", "201"),
    ("Demo-Lose-Reply", "yes"),
    ("Demo-Network-Delay", "soon"),
    ("Demo-Network-Fail", "maybe"),
    ("Demo-Network-Die", "\xff"),
]


@pytest.mark.parametrize(("name", "value"), MALFORMED)
def test_a_malformed_header_is_a_400_that_names_it_and_nothing_runs(name: str, value: str) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        raise AssertionError("the view has run")

    request = RequestFactory().post("/", headers={name: value})
    response = lose_replies(view)(request)
    assert response.status_code == 400
    assert isinstance(response, HttpResponse)
    assert name in response.content.decode()


@pytest.mark.parametrize("path", CONTENT)
def test_a_malformed_header_is_a_400_on_every_endpoint(live_demo: LiveDemo, path: str) -> None:
    before = live_demo.counts()
    response = live_demo.post("malformed", path=path, delay="soon")
    assert response.status_code == 400
    assert "Demo-Delay takes a number" in response.json()["detail"]
    assert live_demo.counts() == before


def test_an_empty_header_asks_for_nothing() -> None:
    assert Faults.of({"Demo-Delay": "", "Demo-Die": "", "Demo-Lock": ""}) == Faults()


def test_headers_are_not_honoured_where_the_setting_is_off(settings) -> None:
    settings.DEMO_FAULTS = False
    headers = {"Demo-Fail": "before", "Demo-Delay": "soon", "Demo-Network-Fail": "before"}
    assert Faults.of(headers) == Faults()
    assert for_network(headers) == {}


def test_only_what_is_meant_for_the_network_is_passed_on() -> None:
    headers = {"Demo-Fail": "before", "Demo-Network-Delay": "2", "Demo-Network-Lock": "1"}
    assert for_network(headers) == {"Demo-Delay": "2"}


def test_a_failure_is_raised_at_its_own_point_and_no_other() -> None:
    faults = Faults(fail="in-step")
    faults.before_effect()
    with pytest.raises(DemoFailure):
        faults.in_step()
    faults.in_receipt()
    faults.after_effect()


def test_a_status_is_answered_after_the_effect() -> None:
    faults = Faults(status=409)
    faults.before_effect()
    with pytest.raises(DemoAnswer) as answer:
        faults.after_effect()
    assert answer.value.status_code == 409
