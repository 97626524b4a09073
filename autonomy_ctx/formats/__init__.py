"""The request and reply formats of the model providers, one module for each, and `dumps`: messages as other
systems write them to files. Pure functions without network access.
"""
