"""An application that counts its own sockets. Argument: a plan as JSON; see `first.py`."""

import asyncio
import json
import random
import socket
import struct
import sys
from typing import Any

PACKET = 512
CONNECTIONS = {"chat": 20, "ledger": 20, "ring": 0}
PLAN: dict[str, Any] = json.loads(sys.argv[1])
COUNTED: list[dict[str, Any]] = []


class Connection:
    """A socket, with the calls that were made on it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.setblocking(False)
        self.writes = self.written = 0
        self.ends = [*connection.getsockname()[:2], *connection.getpeername()[:2]]

    async def send(self, data: bytes) -> None:
        """One call of send() for all of it: these are small."""
        if self.socket.send(data) != len(data):
            raise OSError("a send was partial")
        self.writes += 1
        self.written += len(data)

    async def receive(self, size: int) -> bool:
        """Returns whether all came."""
        while size:
            part = await asyncio.get_running_loop().sock_recv(self.socket, size)
            if not part:
                return False
            size -= len(part)
        # its next data may be long in coming: without this its own kernel would delay the ACK
        if PLAN["app"] != "ledger":
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return True

    def count(self) -> None:
        """Notes what was done, and what the kernel counted."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 248)
        (retrans,) = struct.unpack_from("I", info, 100)
        acked, received, segments = struct.unpack_from("QQI", info, 120)
        (timeouts,) = struct.unpack_from("H", info, 240)
        COUNTED.append(
            {
                "app": PLAN["app"], "ends": self.ends, "writes": self.writes, "written": self.written,
                "acked": acked, "received": received, "segments": segments, "retrans": retrans, "timeouts": timeouts,
            }
        )  # fmt: skip


LIVE: list[Connection] = []


async def serve(listener: socket.socket) -> None:
    """Answers each block; `ledger` thinks before it does, so that its kernel delays the ACK."""
    loop, taking = asyncio.get_running_loop(), set()
    while True:
        connection, _ = await loop.sock_accept(listener)
        taking.add(asyncio.create_task(answer(Connection(connection))))


async def answer(one: Connection) -> None:
    """One connection that was accepted."""
    LIVE.append(one)
    try:
        while True:
            if PLAN["app"] == "ledger":
                one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            if not await one.receive(PACKET):
                break
            if PLAN["app"] == "ledger":
                await asyncio.sleep(0.15)
            await one.send(bytes(PACKET))
    except (OSError, asyncio.CancelledError):
        return
    LIVE.remove(one)
    one.count()
    one.socket.close()


async def connect() -> Connection:
    """Opens a connection to the peer."""
    connection = socket.socket()
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (PLAN["peer"], PLAN["port"]))
    return Connection(connection)


async def ask(one: Connection, generator: random.Random) -> None:
    """Asks until the end."""
    while True:
        await asyncio.sleep(generator.uniform(0.1, 0.3))
        await one.send(bytes(PACKET))
        await one.receive(PACKET)


async def ring(generator: random.Random) -> None:
    """Short connections, one after the other."""
    while True:
        await asyncio.sleep(generator.uniform(0.1, 0.4))
        one = await connect()
        await one.send(bytes(PACKET))
        await one.receive(PACKET)
        one.count()
        one.socket.close()


async def main() -> None:
    """Obeys the lines of stdin, and answers each."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(0, lambda: lines.put_nowait(sys.stdin.readline().strip()))
    listener = socket.create_server((PLAN["local"], PLAN["port"]), backlog=512)
    listener.setblocking(False)
    server = asyncio.create_task(serve(listener))
    generator = random.Random(PLAN["seed"])
    clients: list[asyncio.Task[None]] = []
    while (line := await lines.get()) and line != "exit":
        if line == "connect":
            opened = [await connect() for _ in range(CONNECTIONS[PLAN["app"]])]
            LIVE.extend(opened)
        if line == "go":
            clients = [asyncio.create_task(ask(one, random.Random(generator.random()))) for one in opened]
            clients += [asyncio.create_task(ring(generator))] if PLAN["app"] == "ring" else []
        if line == "end":
            # what is under way comes to rest, and is counted with its answer
            for client in clients:
                client.cancel()
            await asyncio.sleep(1)
            server.cancel()
        if line == "count":
            for one in LIVE:
                one.count()
            print(json.dumps(COUNTED), flush=True)
        else:
            print("done", flush=True)


asyncio.run(main())
