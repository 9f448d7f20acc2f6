"""Sources and sinks (``pyflink.datastream.connectors``).

Like :mod:`penstock.datastream`, this package loads a connector when one of its names is first used, so a job loads the
client libraries of its own connectors only.
"""

from penstock._absent import absent
from penstock._shelf import show_lazily

show_lazily(__name__, absent)
