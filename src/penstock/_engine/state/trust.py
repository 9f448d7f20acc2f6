"""The classes that values of state may have: unpickling a value runs code that its pickle names.

A job trusts its checkpoints as it trusts its program. A reader of a foreign savepoint need not: then only the types
below and the classes that the reader named are allowed, and any other class is an error before it is called.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from penstock._engine.protocol.key_values import classes_in
from penstock._engine.state import pickles
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
#: How pickles name a method of a class; see `_Unpickler.find_class`.
_GETATTR: Final = "builtins.getattr"


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
        """
        if self.names is None:
            return pickles.load(data)
        try:
            return _Unpickler(data, self).load()
        except AttributeError:  # a class of __main__ that is not there yet
            pickles.publish_main_classes()
            return _Unpickler(data, self).load()

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


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, allowed: AllowedClasses) -> None:
        super().__init__(io.BytesIO(data), fix_imports=False)
        self._allowed = allowed

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the class that a pickle names, if it is allowed."""
        name = f"{module_name}.{global_name}"
        if name == _GETATTR:
            return _attribute
        self._allowed.check(name)
        found = super().find_class(module_name, global_name)
        if not isinstance(found, type) and found is not make_row:
            raise UntrustedClassError(name)
        return found


def _attribute(holder: Any, name: str) -> Any:
    """Replace getattr: pickles use it to restore time zones by a method, and some enums by the names of members."""
    if holder is ZoneInfo and name == "_unpickle":
        return ZoneInfo._unpickle  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(holder, type) and issubclass(holder, Enum) and name in holder.__members__:
        return holder[name]
    raise UntrustedClassError(_GETATTR)
