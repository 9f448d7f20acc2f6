"""The backend of keyed state on the local disk: LMDB, an overlay, and how both are read as one."""
