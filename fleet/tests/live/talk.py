"""Traffic of one application on one host, over real sockets. Arguments: a plan as JSON.

Clients ask in blocks of `PACKET` bytes; the first byte less 1 says how long the server thinks (in 10 ms), so that its
kernel delays the ACK meanwhile; 1: answer at once; 0: no answer is wanted.
"""

import asyncio
import json
import os
import random
import socket
import sys
import time
from typing import Any

PACKET = 512


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Thinks for the given time, and answers."""
    connection = writer.get_extra_info("socket")
    try:
        while True:
            # lets the kernel wait for an answer that could carry the ACK, as it does of itself on busier connections
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            asked = await reader.readexactly(PACKET)
            if asked[0]:
                await asyncio.sleep((asked[0] - 1) / 100)
                writer.write(asked)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        writer.close()


async def serve(plan: dict[str, Any]) -> None:
    """Listens. With `slow` it reads less than it is sent; `pause` reads late now and then; both with small buffers."""
    listener = socket.create_server(("", plan["listen"]), backlog=512)
    if plan["app"] != "pause" and not plan["slow"]:
        server = await asyncio.start_server(sink if plan["app"] in BULK else answer, sock=listener)
        await server.serve_forever()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.setblocking(False)
    loop = asyncio.get_running_loop()
    taking = set()
    while True:
        connection, _ = await loop.sock_accept(listener)
        taking.add(asyncio.create_task(sip(connection) if plan["slow"] else pause(connection)))


async def pause(connection: socket.socket) -> None:
    """Waits before it takes a block."""
    loop = asyncio.get_running_loop()
    taken = 0
    while part := await loop.sock_recv(connection, 1 << 16):
        if taken == 0:
            await asyncio.sleep(0.8)
        taken += len(part)
        if taken >= STORED * PACKET:
            taken -= STORED * PACKET
            await loop.sock_sendall(connection, bytes(PACKET))


async def sip(connection: socket.socket) -> None:
    """Takes 1 kB in 50 ms, and answers when it has all."""
    loop = asyncio.get_running_loop()
    taken = 0
    while part := await loop.sock_recv(connection, 1024):
        taken += len(part)
        if taken >= STORED * PACKET:
            taken -= STORED * PACKET
            await loop.sock_sendall(connection, bytes(PACKET))
        await asyncio.sleep(0.05)


async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes all, and has it acknowledged at once: another application delays ACKs."""
    connection = writer.get_extra_info("socket")
    try:
        while await reader.read(1 << 20):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except (ConnectionError, asyncio.CancelledError):
        pass
    writer.close()


async def ask(app: str, address: str, port: int, together: bool, generator: random.Random) -> None:
    """One connection until the end. Bulk is sent `together`, at times of the one clock that all namespaces share."""
    reader, writer = await asyncio.open_connection(address, port)
    CONNECTED.append(1)
    await GO.wait()
    while True:
        if app in BULK:
            await asyncio.sleep(EVERY - time.monotonic() % EVERY if together else generator.uniform(0, 2 * EVERY))
            writer.write(bytes(1 << 17))
            await writer.drain()
            continue
        await asyncio.sleep(PAUSE[app](generator))
        stored = app in STORES
        thought = bytes([1 if stored else 16]) + bytes(PACKET - 1)
        writer.write(bytes((STORED - 1) * PACKET) + thought if stored else thought)
        await reader.readexactly(PACKET)


EVERY = 3.0
STORED = 32
BULK = ("bulk", "copy")
STORES = ("store", "queue", "pause")
PAUSE = {
    "chat": lambda generator: generator.expovariate(1 / 8),
    "pause": lambda generator: generator.expovariate(1 / 8),
    "logger": lambda generator: generator.uniform(0.1, 0.3),
    "store": lambda generator: generator.uniform(0.2, 0.4),
    "queue": lambda generator: generator.uniform(0.2, 0.4),
}
CONNECTED: list[int] = []
GO = asyncio.Event()


async def main() -> None:
    """Listens, connects on a command, talks on the next, ends when stdin closes."""
    plan = json.loads(sys.argv[1])
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(0, lambda: lines.put_nowait(sys.stdin.readline()))
    server = asyncio.create_task(serve(plan))
    await asyncio.sleep(0)
    print("listening", flush=True)
    await lines.get()
    generator = random.Random(plan["seed"])
    targets = [(address, port, together) for address, port, together, n in plan["connect"] for _ in range(n)]
    clients = [asyncio.create_task(ask(plan["app"], *target, random.Random(generator.random()))) for target in targets]
    while len(CONNECTED) < len(targets):
        failed = [task for task in clients if task.done()]
        if failed:
            failed[0].result()
        await asyncio.sleep(0.05)
    print("connected", flush=True)
    await lines.get()
    GO.set()
    await lines.get()
    server.cancel()
    # peers end too: what they cut off is of no interest
    sys.stdout.flush()
    os._exit(0)


asyncio.run(main())
