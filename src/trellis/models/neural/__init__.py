"""Neural taggers; settings are there without torch, the model comes with it."""
