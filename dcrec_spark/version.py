"""The version, where every part may ask for it."""

__version__ = "0.1.0"
