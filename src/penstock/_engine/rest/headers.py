"""Header lines of every answer, refusals and files among them: what browsers may do with it."""

from __future__ import annotations

from typing import Final

#: Scripts and styles come from this server alone, no text is ever taken for HTML, and no page may frame it.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
#: As ASGI has them. Nothing is stored: after an upgrade no old module meets a new one, and no disk keeps figures.
SECURITY_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
