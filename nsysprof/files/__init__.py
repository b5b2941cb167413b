"""Write nsysprof's files and folders completely or not at all, and read them into typed objects."""
