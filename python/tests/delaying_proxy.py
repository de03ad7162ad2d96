"""A proxy as far away as another continent: it delays all bytes and each connection."""

import asyncio
import threading


class DelayingProxy:
    """Forwards connections to a daemon; bytes take `delay_s` in each direction."""

    def __init__(self, address: str, delay_s: float):
        self._daemon = address.rsplit(":", 1)
        self._delay_s = delay_s
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)

    async def _serve(self, reader, writer) -> None:
        host, port = self._daemon
        from_daemon, to_daemon = await asyncio.open_connection(host, int(port))
        # The handshake of a connection takes a round trip, too.
        await asyncio.sleep(2 * self._delay_s)
        await asyncio.gather(self._forward(reader, to_daemon), self._forward(from_daemon, writer))

    async def _forward(self, reader, writer) -> None:
        while data := await reader.read(64 << 10):
            self._loop.call_later(self._delay_s, writer.write, data)
        self._loop.call_later(self._delay_s, writer.close)
