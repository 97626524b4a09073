"""Many users in one memory: each sees their own, and forgetting one of them is a single call."""

import anyio

from autonomy_ctx import Memory, Message, create_default_template


async def main() -> None:
    memory = Memory()
    # The scope is the user or tenant. Names are compared as they are: `a` + `b:c` is not `a:b` + `c`.
    await memory.append("acme", "ops:today", Message("user", "Rotate the staging keys."))
    await memory.append("acme:ops", "today", Message("user", "What is for lunch?"))
    # The same scope with two agents: two logs.
    planner, coder = memory.for_agent("planner"), memory.for_agent("coder")
    await planner.append("acme", "ops:today", Message("user", "Plan the migration."))
    await coder.append("acme", "ops:today", Message("user", "Write the migration."))

    template = create_default_template("You help the operations team.")
    for view in (memory, planner, coder):
        context = await template.compose(view, "acme", "ops:today")
        print(f"{context.scope:10}{view.agent or '-':10}{context.messages[-1].text}")
    context = await template.compose(memory, "acme:ops", "today")
    print(f"{context.scope:10}{'-':10}{context.messages[-1].text}")

    print(f"deleted {await memory.delete_scope('acme')} messages of acme, of all its agents")
    print(f"left: acme {await planner.get_message_count('acme', 'ops:today')}, ", end="")
    print(f"acme:ops {await memory.get_message_count('acme:ops', 'today')}")


if __name__ == "__main__":
    anyio.run(main)
