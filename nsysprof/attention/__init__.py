"""Define what is special about attention: cases, range names, work model, backends and their constraints."""
