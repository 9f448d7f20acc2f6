"""The classes of :mod:`penstock.common.typeinfo`, which is where they are imported from."""
