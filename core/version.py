"""The product's version, as runs record it."""

VERSION = "0.1.0"
