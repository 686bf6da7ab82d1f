"""All steps of a recurrence in one kernel, whose weights stay in the registers of a cluster."""
