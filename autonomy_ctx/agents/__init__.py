"""An agent repeats compose, ask and remember; a node hosts agents."""
