"""The fusion policy: which operators become one kernel."""
