"""How modules and schedules look in a notebook."""
