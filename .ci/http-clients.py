"""Python's http.client and, if it is there, requests, against the example `mirror`."""

import http.client
import sys

address = sys.argv[1]
connection = http.client.HTTPConnection(address, timeout=20)


def ask(method, path, body=None, chunked=False):
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    connection.request(method, path, body, headers, encode_chunked=chunked)
    response = connection.getresponse()
    return response.status, response.read()


large = bytes(range(256)) * 20_000
for _ in range(3):
    assert ask("POST", "/", b"hello") == (200, b"hello")
    assert ask("PUT", "/", large) == (200, large)
    assert ask("POST", "/", iter([b"one ", b"two"]), chunked=True) == (200, b"one two")
    assert ask("GET", "/chunks") == (200, b"line 1\nline 2\nline 3\n")
    assert ask("HEAD", "/chunks") == (200, b"")
    assert ask("GET", "/head?a=b") == (200, b"GET /head a=b")
    assert ask("GET", "/nothing") == (404, b"")
    assert ask("POST", "/refuse", b"x" * 1000) == (403, b"")
    assert ask("POST", "/refuse", large)[0] == 403  # the server closes the connection
    assert ask("GET", "/close") == (200, b"closed\n")
print("http.client: passed")

try:
    import requests
except ImportError:
    print("skipped: no requests")
    sys.exit()

with requests.Session() as session:
    url = f"http://{address}"
    for _ in range(3):
        assert session.post(f"{url}/", data=large, timeout=20).content == large
        assert session.post(f"{url}/", data=iter([b"a", b"b"]), timeout=20).content == b"ab"
        assert session.get(f"{url}/chunks", timeout=20).text == "line 1\nline 2\nline 3\n"
        assert session.get(f"{url}/head", params={"a": "b"}, timeout=20).text == "GET /head a=b"
        assert session.head(f"{url}/head", timeout=20).status_code == 200
        assert session.get(f"{url}/close", timeout=20).text == "closed\n"
print("requests: passed")
