"""A WSGI application that asks another server for each answer."""

import http.client


def answer(_, start_response):
    upstream = http.client.HTTPConnection("127.0.0.1", UPSTREAM)
    upstream.request("GET", "/")
    text = upstream.getresponse().read()
    upstream.close()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
