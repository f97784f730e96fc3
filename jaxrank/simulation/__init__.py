"""`run`, `simulate`, and the engine beneath them."""
