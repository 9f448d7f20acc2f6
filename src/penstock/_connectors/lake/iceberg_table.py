"""Access to Iceberg tables: the library, the catalog with the job's keys, and a table in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from penstock._files.job_options import store_options
from penstock._files.s3 import is_s3_setting
from penstock.common import option_table
from penstock.common.configuration import Configuration
from penstock.errors import LakeTableError


def given_options(catalog: Any) -> dict[str, str]:
    """Return the options of a catalog that a program gives.

    Raises:
        TypeError: It is no mapping.
    """
    if not isinstance(catalog, Mapping):
        msg = 'catalog must be the options of a catalog, such as {"type": "rest", "uri": …}, not a %s.'
        raise TypeError(msg % type(catalog).__name__)
    return dict(cast("Mapping[str, str]", catalog))


def catalog_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog: those that are given, over the job's ``s3.…`` keys."""
    settings = Configuration.from_dict({key: text for key, text in store_options().items() if is_s3_setting(key)})
    path_style = settings.get(option_table.S3_PATH_STYLE)
    named = {
        "s3.endpoint": settings.get(option_table.S3_ENDPOINT),
        "s3.region": settings.get(option_table.S3_REGION),
        "s3.access-key-id": settings.get(option_table.S3_ACCESS_KEY),
        "s3.secret-access-key": settings.get(option_table.S3_SECRET_KEY),
        "s3.session-token": settings.get(option_table.S3_SESSION_TOKEN),
        "s3.force-virtual-addressing": None if path_style is None else str(not path_style).lower(),
    }
    return {name: value for name, value in named.items() if value is not None} | dict(given)


def local_warehouse(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folder below which a catalog has its tables; nothing where they are in an object store, or not named.

    Example:
        >>> local_warehouse({"type": "sql", "warehouse": "file:///data/tables"})
        ('/data/tables',)
        >>> local_warehouse({"type": "rest", "warehouse": "s3://bucket/tables"})
        ()
    """
    warehouse = options.get("warehouse", "")
    if warehouse.startswith("file:"):
        return (urlsplit(warehouse).path,)
    return (warehouse,) if warehouse.startswith("/") else ()


class Tables:
    """The catalog of a table, which is opened when it is used.

    Writers and readers close it as soon as they have the table: it may be a database with few connections.

    Args:
        identifier: The table's name in the catalog.
        options: As of ``catalog_options``.
    """

    def __init__(self, identifier: str, options: Mapping[str, str]) -> None:
        self.identifier: str = identifier
        self._options = options
        self._catalog: Any = None

    @property
    def catalog(self) -> Any:
        """The catalog."""
        if self._catalog is None:
            from pyiceberg.catalog import load_catalog

            self._catalog = load_catalog(self._options.get("name", "penstock"), **self._options)
        return self._catalog

    def load(self, what: str) -> Any:
        """Return the table as it is now.

        Args:
            what: What it is for, for the error.

        Raises:
            LakeTableError: There is no such table, or the catalog does not answer.
        """
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self.catalog.load_table(self.identifier)
        except NoSuchTableError:
            raise LakeTableError(
                f"{what} the Iceberg table {self.identifier}", "the catalog has no such table"
            ) from None
        except Exception as error:  # each catalog raises the errors of its client
            reason = f"the catalog does not give it ({type(error).__name__}: {error})"
            raise LakeTableError(f"{what} the Iceberg table {self.identifier}", reason) from error

    def load_once(self, what: str) -> Any:
        """Return the table, and close the catalog; raises as ``load`` does."""
        try:
            return self.load(what)
        finally:
            self.close()

    def make(self, schema: Any) -> None:
        """Make the table, without partitions, and its namespace, where there is none.

        Raises:
            LakeTableError: The catalog does not answer, or makes no such table.
        """
        namespace = self.identifier.rpartition(".")[0]
        try:
            if namespace:
                self.catalog.create_namespace_if_not_exists(namespace)
            self.catalog.create_table_if_not_exists(self.identifier, schema=schema)
        except Exception as error:  # each catalog raises the errors of its client
            hint = "" if namespace else "; a table has a namespace, as in shop.orders"
            reason = f"the catalog does not make it ({type(error).__name__}: {error}){hint}"
            raise LakeTableError(f"Making the Iceberg table {self.identifier}", reason) from error

    def close(self) -> None:
        """Close the catalog; may be called twice."""
        catalog, self._catalog = self._catalog, None
        close: Any = getattr(catalog, "close", None)  # not every version has it
        if close is not None:
            close()
