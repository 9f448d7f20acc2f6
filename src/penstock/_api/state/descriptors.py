"""What all state descriptors have: the name and the settings of a state."""

from __future__ import annotations

from penstock._api.state.ttl import StateTtlConfig
from penstock._shelf import show
from penstock.common.names import checked_name
from penstock.common.typeinfo import TypeInformation, Types


class StateDescriptor:
    """The name and the type of a state.

    The name identifies the state after a failure and in a savepoint; it is unique within one function.

    Args:
        name: The name.
        type_info: The type of its values; optional.

    Raises:
        TypeError: The type is none.
        UnsupportedOperationError: The name has line breaks or other characters that cannot be shown, or more than 500.

    Source: org.apache.flink.api.common.state.StateDescriptor.
    """

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        self.name: str = checked_name(name, type(self).__name__, "the name of a state")
        self.type_info: TypeInformation = given(type_info)
        self.ttl_config: StateTtlConfig | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire.

        Args:
            ttl_config: When values expire.

        Raises:
            TypeError: It is no StateTtlConfig.
        """
        if not isinstance(ttl_config, StateTtlConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"ttl_config must be a StateTtlConfig, made by StateTtlConfig.new_builder(...), not {ttl_config!r}."
            raise TypeError(msg)
        self.ttl_config = ttl_config


def given(type_info: TypeInformation | None) -> TypeInformation:
    """Return the type of a state, that of any object for none; raise TypeError if it is no type."""
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if not isinstance(type_info, TypeInformation):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"The type of a state must be one such as Types.INT(), or None, not {type_info!r}."
        raise TypeError(msg)
    return type_info


show("penstock.datastream.state", StateDescriptor)
