"""The server: OpenAI's HTTP API in one process, the engine core in another, messages between them."""
