"""A small shop, for the demo: its services, and a customer. Addresses come from variables, as HOST:PORT.

    shop.py prices    answers what articles cost, at PRICES
    shop.py shop      serves orders by HTTP at SHOP; asks the cart (redis, CART) and PRICES
    shop.py load N    orders N times, one after the other, at FRONT

One fault is planted: see `ask_prices`. With FIXED=1 it is not there.
"""

import os
import socket
import sys
import threading

ARTICLES = 20


def address(name: str) -> tuple[str, int]:
    host, port = os.environ[name].rsplit(":", 1)
    return host, int(port)


def serve(name: str, answer) -> None:
    """Runs a thread for each connection to an address."""
    listener = socket.create_server(("", address(name)[1]))
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer, args=[client], daemon=True).start()


def receive(connection: socket.socket, length: int) -> bytes:
    return connection.recv(length, socket.MSG_WAITALL)


def prices(client: socket.socket) -> None:
    """Answers questions: four bytes with a length, then a number of four bytes for each article."""
    while head := receive(client, 4):
        articles = receive(client, int.from_bytes(head))
        client.sendall(b"".join((int.from_bytes(articles[at : at + 4]) * 99).to_bytes(8) for at in range(0, len(articles), 4)))


def ask_prices(service: socket.socket, articles: list[int]) -> int:
    body = b"".join(article.to_bytes(4) for article in articles)
    head = len(body).to_bytes(4)
    if os.environ.get("FIXED") == "1":
        service.sendall(head + body)
    else:
        service.sendall(head)
        service.sendall(body)
    return sum(int.from_bytes(receive(service, 8)) for _ in articles)


def ask_cart(cart: socket.socket, number: int) -> int:
    """Counts a visit of the cart, by redis' own protocol."""
    key = b"cart:%d" % number
    cart.sendall(b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(key), key))
    return int(cart.makefile("rb").readline()[1:])


def shop(client: socket.socket) -> None:
    """Serves GET /order/N on a connection that is kept."""
    cart, service = (socket.create_connection(address(name)) for name in ("CART", "PRICES"))
    reader = client.makefile("rb")
    while line := reader.readline():
        while reader.readline().strip():
            pass
        number = int(line.split()[1].rsplit(b"/", 1)[1])
        visits = ask_cart(cart, number)
        total = ask_prices(service, [number + at for at in range(ARTICLES)])
        body = b"visit %d: %d\n" % (visits, total)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def load(orders: int) -> None:
    """Orders, over one connection."""
    front = socket.create_connection(address("FRONT"))
    reader = front.makefile("rb")
    for number in range(orders):
        front.sendall(b"GET /order/%d HTTP/1.1\r\nHost: shop\r\n\r\n" % number)
        status = reader.readline()
        assert b" 200 " in status, status
        length = 0
        while header := reader.readline().strip():
            name, value = header.split(b":", 1)
            if name.lower() == b"content-length":
                length = int(value)
        reader.read(length)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prices"]:
            serve("PRICES", prices)
        case ["shop"]:
            serve("SHOP", shop)
        case ["load", orders]:
            load(int(orders))
        case _:
            sys.exit(__doc__)
