"""The same request or another one, as a view's client meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, TemporaryUploadedFile
from django.urls import path
from rest_framework.response import Response

from idempotency_app.policy import Effects, Idempotency
from tests.testapp.models import Order

from .support import Gate, ViewClient, code, create_order, is_replay, make_view

pytestmark = pytest.mark.django_db

FIRST = b'{"sku":"s1","amount":100,"items":[1,2],"o":{"a":1,"b":2}}'
SIZE = 3 * 1024 * 1024  # Django keeps uploads of more than 2.5 MB in a temporary file


def answer(request, **kwargs):
    return Response({"method": request.method}, status=201)


def send_json(client, key, body):
    return client.send(key, body, content_type="application/json")


def outcome(response):
    """Return "replay", "executes", or the problem's code."""
    if response.status_code < 400:
        return "replay" if is_replay(response) else "executes"
    return code(response)


@pytest.mark.parametrize(
    ("second", "result"),
    [
        pytest.param(
            b'{ "o":{"b":2,"a":1}, "items":[1,2],\n "amount":100, "sku":"s1" }',
            "replay",
            id="another order of keys",
        ),
        pytest.param(FIRST[:-1] + b',"note":null}', "key-reused", id="a null more"),
        pytest.param(FIRST.replace(b"[1,2]", b"[2,1]"), "key-reused", id="another order of items"),
    ],
)
def test_b14_json_counts_by_content(second, result):
    view = make_view(answer)
    client = ViewClient(view)
    send_json(client, "k14", FIRST)
    assert outcome(send_json(client, "k14", second)) == result
    assert len(view.calls) == 1


def multipart(boundary, content, sku="s1"):
    """Return body and content type, as a client would write them."""
    lines = [
        f"--{boundary}",
        'Content-Disposition: form-data; name="sku"',
        "",
        sku,
        f"--{boundary}",
        'Content-Disposition: form-data; name="f"; filename="f.bin"',
        "Content-Type: application/octet-stream",
        "",
        "",
    ]
    body = "\r\n".join(lines).encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return {"data": body, "content_type": f"multipart/form-data; boundary={boundary}"}


@pytest.fixture
def upload():
    read = []

    def work(request):
        file = request.data["f"]
        assert isinstance(file, TemporaryUploadedFile)
        read.append((len(file.read()), file.size, request.data["sku"]))
        return Response(status=201)

    client = ViewClient(make_view(work))
    client.send("k15", **multipart("AAA", b"x" * SIZE))
    assert read == [(SIZE, SIZE, "s1")]
    return client


@pytest.mark.parametrize(
    ("second", "result"),
    [
        pytest.param(multipart("BBB", b"x" * SIZE), "replay", id="another boundary"),
        pytest.param(multipart("AAA", b"x" * (SIZE - 1) + b"y"), "key-reused", id="last byte"),
        pytest.param(multipart("AAA", b"x" * SIZE, sku="s2"), "key-reused", id="another field"),
    ],
)
def test_b15_multipart_counts_by_its_parts(upload, second, result):
    assert outcome(upload.send("k15", **second)) == result


def test_an_upload_leaves_no_temporary_file(settings, tmp_path):
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    client = ViewClient(make_view(lambda request: Response({"n": request.data["f"].size})))
    file = SimpleUploadedFile("f.bin", b"x" * SIZE)
    client.send("k15", {"f": file}, format="multipart").close()
    assert list(Path(tmp_path).iterdir()) == []


@pytest.fixture
def several():
    policy = Idempotency(effects=Effects.LOCAL, methods={"POST", "PUT", "PATCH"})
    handlers: dict[str, Any] = {"put": lambda self, request, **kwargs: answer(request)}
    handlers["patch"] = handlers["put"]
    view = make_view(answer, policy=policy, **handlers)
    return [
        path("orders/", view.as_view()),
        path("orders/<int:pk>/", view.as_view()),
        path("refunds/", make_view(answer).as_view()),
    ]


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("post /orders/?dry_run=1", "post /orders/", "key-reused"),
        ("post /orders/?a=1&b=2", "post /orders/?b=2&a=1", "replay"),
        ("post /orders/", "post /refunds/", "executes"),
        ("put /orders/1/", "put /orders/2/", "key-reused"),
        ("post /orders/1/", "patch /orders/1/", "executes"),
    ],
)
def test_b16_query_path_method_and_endpoint_count(several, first, second, result):
    client = ViewClient(several)
    method, to = first.split()
    client.send("k16", method=method, to=to)
    method, to = second.split()
    assert outcome(client.send("k16", method=method, to=to)) == result


@pytest.mark.parametrize(
    ("first", "second", "results"),
    [
        (b"9007199254740993", b"9007199254740992", {"key-reused"}),
        (b"1", b"true", {"key-reused"}),
        (b'"1"', b"1", {"key-reused"}),
        (b"100", b"1e2", {"replay", "key-reused"}),
        (b"0.1", b"0.10000000000000001", {"key-reused"}),
        (b"null", b"0", {"key-reused"}),
    ],
)
def test_b17_numbers_keep_their_exact_text(first, second, results):
    view = make_view(answer)
    client = ViewClient(view)
    send_json(client, "k17", b'{"amount":%s}' % first)
    assert outcome(send_json(client, "k17", b'{"amount":%s}' % second)) in results
    assert len(view.calls) == 1


@pytest.mark.django_db(transaction=True)
def test_b19_another_body_hears_so_while_the_first_is_still_running(threads):
    gate = Gate()

    def work(request):
        gate.wait()
        return create_order(request)

    view = make_view(work)
    first = threads.call(ViewClient(view).send, "k19")
    gate.await_entry()
    second = ViewClient(view).send("k19", {"sku": "s1", "amount": 200})
    gate.open()
    assert (second.status_code, outcome(second)) == (422, "key-reused")
    assert "Retry-After" not in second.headers
    assert first.result(20).status_code == 201
    assert is_replay(ViewClient(view).send("k19"))
    assert list(Order.objects.values_list("amount", flat=True)) == [100]
