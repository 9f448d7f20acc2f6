from __future__ import annotations

from tests.docs.cli_reference import DOCUMENT, updated


def test_document_of_the_command_is_what_the_commands_say() -> None:
    text = DOCUMENT.read_text()
    assert updated(text) == text, "python -m tests.docs.cli_reference writes it anew"
