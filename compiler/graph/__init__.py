"""Pure decisions on operators and layouts: fusion, attention, layouts, precision, aliases."""
