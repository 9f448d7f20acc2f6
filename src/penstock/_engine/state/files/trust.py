"""The classes that values of state may have, because unpickling a value runs code that its pickle names.

A job trusts its checkpoints as it trusts its program. A reader of a foreign savepoint need not: then only the types
below and the classes that the reader named are allowed, and any other class is an error before it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.protocol.key_values import classes_in
from penstock._engine.state.files import pickles
from penstock._engine.state.files.restricted_pickles import load_restricted
from penstock.common.time import Duration, Instant, Time
from penstock.common.types import Row, RowKind, make_row
from penstock.errors import UntrustedClassError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Plain types by module.
_PLAIN_TYPES: Final = {
    "builtins": "bool bytearray bytes complex dict float frozenset int list range set slice str tuple",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "uuid": "SafeUUID UUID",
    "zoneinfo": "ZoneInfo",
}
_PLAIN: Final = frozenset(
    {
        *(f"{module}.{name}" for module, names in _PLAIN_TYPES.items() for name in names.split()),
        *(f"{known.__module__}.{known.__qualname__}" for known in (Duration, Instant, Row, RowKind, Time, make_row)),
    }
)


@dataclass(frozen=True, slots=True)
class AllowedClasses:
    """The classes that values may have.

    Attributes:
        names: The classes in addition to the plain types, by module and name; None allows every class.
    """

    names: frozenset[str] | None = None

    @classmethod
    def of(cls, classes: Iterable[type[Any] | str]) -> AllowedClasses:
        """Return the plain types and some classes.

        Args:
            classes: The classes, or their names with the module.
        """
        return cls(
            frozenset(one if isinstance(one, str) else f"{one.__module__}.{one.__qualname__}" for one in classes)
        )

    def with_names(self, names: frozenset[str]) -> AllowedClasses:
        """Return these classes and some more."""
        return self if self.names is None else AllowedClasses(self.names | names)

    def load(self, data: bytes) -> Any:
        """Return the value of a pickle.

        Raises:
            UntrustedClassError: The pickle names a class that is not allowed.
            UnpicklingError: It is damaged, or would change an object of the process.
        """
        if self.names is None:
            return pickles.load(data)
        try:
            return load_restricted(data, self.check, self.names.__contains__)
        except AttributeError:  # a class of __main__ that is not there yet
            pickles.publish_main_classes()
            return load_restricted(data, self.check, self.names.__contains__)

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Make sure that the encodings among some normal keys name no class that is not allowed.

        Raises:
            UntrustedClassError: An encoding does.
        """
        if self.names is not None:
            for key in keys:
                for name in classes_in(key) if type(key) is bytes else ():
                    self.check(name)

    def check(self, name: str) -> None:
        """Raise UntrustedClassError for a class that is not allowed."""
        if self.names is not None and name not in self.names and name not in _PLAIN:
            raise UntrustedClassError(name)


#: Every class: for the state of the job itself.
ALL_CLASSES: Final = AllowedClasses()
