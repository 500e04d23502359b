"""One module per library, imported only when used: `redrive.integrations.httpx`, `.requests`, `.aiohttp`, …"""
