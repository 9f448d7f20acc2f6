"""The local version of keyed state: LMDB, the layer of the running epoch, and how both are read as one."""
