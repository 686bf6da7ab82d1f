"""What code is compiled for, and what each device can do."""
