"""Adapters: summaries, facts, budgets and `explain` for agents of other frameworks.

Each module needs the extra of its name: `pip install 'autonomy-ctx[langchain]'` for
`autonomy_ctx.adapters.langchain`.
"""
