"""The settings of the test suite: SQLite in a file, or what DATABASE_URL names."""

import os
import tempfile
from pathlib import Path
from typing import Any

import environ

env = environ.Env()

# Threads and other processes have to reach the same database, so it is a file; one for each
# run, so that two runs at once do not meet.
SQLITE_FILE = Path(tempfile.gettempdir()) / f"idempotency-tests-{os.getpid()}.sqlite3"


def database() -> dict[str, Any]:
    """Return the database of DATABASE_URL, or this run's own SQLite file."""
    config: dict[str, Any] = env.db_url("DATABASE_URL", default=f"sqlite:///{SQLITE_FILE}")
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config |= {"TEST": {"NAME": f"{config['NAME']}.test"}, "OPTIONS": SQLITE_OPTIONS}
    if config["ENGINE"] == "django.db.backends.mysql":
        # A server's own default may be narrower, and then refuses or changes text.
        config |= {"TEST": {"CHARSET": "utf8mb4"}, "OPTIONS": {"charset": "utf8mb4"}}
    return config


SQLITE_OPTIONS = {
    # A transaction that reads and then writes fails at once with "database is locked",
    # whatever the timeout, unless it takes the write lock when it begins.
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    "timeout": 20,
}


def beside(alias: str) -> dict[str, Any]:
    """Return one more database of the same kind, which is made only for tests that name it."""
    config = database()
    test = config.get("TEST", {})
    name = test.get("NAME", f"test_{config['NAME']}")
    return config | {"TEST": test | {"NAME": f"{name}_{alias}"}}


DATABASES = {
    "default": database(),
    # Stays empty: what is read from here has not arrived yet.
    "replica": beside("replica"),
    # Holds the keys of one rerun of the contract.
    "other": beside("other"),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SECRET_KEY = "only-for-tests"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
# The default hasher is slow on purpose; here it would only slow the tests.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "idempotency_app",
    "idempotency_app.contrib.prometheus",
    # So that the type checker and the tests of the seed find the demo's models.
    "demo_project",
    "tests.testapp",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# What the demo's code reads. The tests that serve it for real use its own settings.
DEMO_VAR = Path(tempfile.gettempdir()) / f"idempotency-tests-{os.getpid()}"
DEMO_FAULTS = True
DEMO_OWNS_DATABASE = False

REST_FRAMEWORK = {"TEST_REQUEST_DEFAULT_FORMAT": "json"}
