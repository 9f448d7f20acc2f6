"""The file source and the file sink, on local disks and in object stores."""
