"""Secrets: known shapes are found, ordinary text is left alone, and no value is ever said."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentm.context.secrets import secrets, without_secrets
from agentm.errors import SecretFoundError

# Put together here, so that none of them looks like one in this file.
A36, A40 = "a1B2" * 9, "a1B2" * 10
FOUND = {
    "AWS access key": "AKIA" + "ABCD1234" * 2,
    "GitHub token": "ghp_" + A36,
    "GitLab token": "glpat-" + A36,
    "Slack token": "xoxb-" + "1234567890-abc",
    "Google API key": "AIza" + "a1B2c" * 7,
    "Anthropic key": "sk-ant-" + A40,
    "OpenAI key": "sk-proj-" + A40,
    "Stripe key": "sk_live_" + A36,
    "npm token": "npm_" + A36,
    "PyPI token": "pypi-" + A40 * 2,
    "JSON web token": "eyJ" + "hbGciOiJI" * 2 + ".eyJ" + "zdWIiOiIx" * 2 + "." + A36,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\n-----END RSA " + "PRIVATE KEY-----",
    "password in an address": "alice:hunter22",
    "assigned secret": "correct-horse-7",
}
AROUND = {"password in an address": "see https://{}@db.example.com/x", "assigned secret": 'password = "{}"'}


@pytest.mark.parametrize("kind", FOUND)
def test_a_secret_is_found_refused_and_taken_out_without_being_said(kind: str) -> None:
    value = FOUND[kind]
    text = "First line.\n" + AROUND.get(kind, "the key is {} and so on").format(value)
    assert [(one.kind, one.line) for one in secrets(text)] == [(kind, 2)]
    with pytest.raises(SecretFoundError) as raised:
        without_secrets(text, "refuse")
    assert raised.value.code == "secret_found"
    assert value not in str(raised.value)
    kept, kinds = without_secrets(text, "redact")
    assert value not in kept
    assert kinds == (kind,)
    assert kept.startswith("First line.\n")
    assert secrets(kept) == []
    assert without_secrets(text, "allow") == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "The password policy was discussed on 2026-03-15.",
        "password: see the vault",
        "api_key = $API_KEY_2",
        'password = "<your password 1>"',
        "secret: ********1",
        "token=your-token-1234",
        "The secret of good bread is time: 24 hours.",
        "https://example.com:8080/path@2x.png",
        "git@github.com:acme/loom.git",
        "ssh://git@example.com/x",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sk-8 is a road, sk-learn a library",
        "data:image/png;base64," + "iVBORw0KGgo" * 20,
        "550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert without_secrets(text, "refuse") == (text, ())


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    kept, _ = without_secrets(text, "redact")
    assert without_secrets(kept, "refuse")[0] == kept
