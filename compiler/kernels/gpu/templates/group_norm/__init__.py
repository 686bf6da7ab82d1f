"""Normalisations of groups of channels of images."""
