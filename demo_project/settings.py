"""The settings of the demo: a payments API on SQLite, or on what DATABASE_URL names."""

from pathlib import Path
from typing import Any

import environ

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent

# Everything that the demo writes to disk; `make demo-reset` empties it.
DEMO_VAR = Path(env.str("DEMO_VAR", default=str(BASE_DIR / "var")))
DEMO_VAR.mkdir(parents=True, exist_ok=True)

# Whether the Demo-... request headers may break things. Never in an API of your own.
DEMO_FAULTS = env.bool("DEMO_FAULTS", default=False)

# An empty variable is how make passes one that nobody set.
DATABASE_URL = env.str("DATABASE_URL", default="")

# Only its own SQLite file may be emptied and seeded anew; a database that somebody named
# may hold rows that are not the demo's.
DEMO_OWNS_DATABASE = not DATABASE_URL

SQLITE_OPTIONS = {
    # Take the write lock when a transaction begins: one that reads and then writes would fail
    # at once with "database is locked", whatever the timeout.
    "transaction_mode": "IMMEDIATE",
    # Readers and the one writer do not wait for each other.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    # Seconds to wait for the write lock; the slowest demonstration is shorter.
    "timeout": 20,
}


def database(url: str) -> dict[str, Any]:
    """Return the entry of DATABASES for the URL."""
    config: dict[str, Any] = env.db_url_config(url)
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config["OPTIONS"] = SQLITE_OPTIONS
    # Seconds. A new connection costs twenty times as much as the key's own statements.
    return config | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


DATABASES = {"default": database(DATABASE_URL or f"sqlite:///{DEMO_VAR / 'demo.sqlite3'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# It signs the demo's sessions on 127.0.0.1 and nothing else.
SECRET_KEY = env.str("SECRET_KEY", default="a-demo-has-no-secrets")
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

ROOT_URLCONF = "demo_project.urls"
WSGI_APPLICATION = "demo_project.wsgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"

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
    "demo_project",
]

MIDDLEWARE = [
    # Outermost, so that what it loses or kills has been committed.
    "demo_project.faults.lose_replies",
    "demo_project.middleware.count_requests",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["demo_project.authentication.TenantAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}

# The contact form is for callers who are nobody, and its answer shows nothing private.
SILENCED_SYSTEM_CHECKS = ["idempotency_app.W004"]
