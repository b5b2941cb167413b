"""Define attention: shapes and cases, range names, the work model, backends, and constraints on them."""
