"""Any group, by TVM's generic schedule."""
