"""The same long conversation, held by other frameworks with their own memory: `make bench-peers`.

Each framework runs in a process of its own and asks the same server for replies, over HTTP. All settings are
in `settings`, what each framework does in the module of its name.
"""
