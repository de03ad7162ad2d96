"""A proxy whose first connection breaks in the middle of an upload."""

import contextlib
import socket
import threading


class BreakingProxy:
    """Forwards connections to a daemon; the first one ends after `break_after` bytes."""

    def __init__(self, address: str, break_after: int):
        host, port = address.rsplit(":", 1)
        self._daemon = (host, int(port))
        self._left = break_after
        self.forwarded = 0
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def target(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._daemon)
            is_breaking = self.connections == 1
            for source, sink, breaks in ((client, server, is_breaking), (server, client, False)):
                threading.Thread(
                    target=self._forward, args=(source, sink, breaks), daemon=True
                ).start()

    def _forward(self, source: socket.socket, sink: socket.socket, breaks: bool) -> None:
        counts = sink.getpeername() == self._daemon
        try:
            while data := source.recv(16 << 10):
                if breaks and self._left <= 0:
                    break
                sink.sendall(data)
                if counts:
                    self.forwarded += len(data)
                    self._left -= len(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
