"""Files as source and as sink, on local disks and in object stores."""
