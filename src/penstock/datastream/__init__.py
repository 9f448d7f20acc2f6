"""The DataStream API (``pyflink.datastream``).

This package loads a module when one of its names is first used. Tasks load the vocabulary (functions, state, windows)
without the builders; an eager package would import the engine along with them, in a circle.
"""

from penstock._absent import absent
from penstock._shelf import show_lazily

show_lazily(__name__, absent)
