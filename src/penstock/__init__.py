"""Penstock: the DataStream API of PyFlink, run on PySpark.

Everything stands where PyFlink has it, below ``penstock`` instead of ``pyflink``:
``from penstock.datastream import StreamExecutionEnvironment``.

Example:
    >>> import penstock
    >>> penstock.__version__
    '0.1.0'
"""

from penstock import _absent

__all__ = ["__version__"]

__version__ = "0.1.0"

_absent.install()
_absent.explain(__name__)
