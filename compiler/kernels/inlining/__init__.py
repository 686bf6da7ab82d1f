"""Stages of tensor expressions put into what reads them, each value computed once."""
