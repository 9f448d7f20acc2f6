"""External sorts, and the operators of batch mode whose input is sorted."""
