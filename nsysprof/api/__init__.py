"""What a Python program or notebook uses; the names are re-exported by `nsysprof` itself."""
