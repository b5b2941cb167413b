"""Prove that a bundle holds nothing private, by searching all of it for every original text."""
