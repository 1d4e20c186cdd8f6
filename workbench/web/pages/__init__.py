"""The pages, one file each; `shell` chooses by the address."""
