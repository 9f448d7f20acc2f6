"""The security headers of every answer, including errors and files."""

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
#: In the form of ASGI. Browsers store nothing: so no old module is used after an upgrade, and no disk keeps figures.
SECURITY_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
