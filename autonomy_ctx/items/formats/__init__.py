"""The request and reply formats of the model providers, one module for each; pure functions without
network access.
"""
