"""gRPC by Python's grpcio, without generated code: `peer.py serve PORT`, or `peer.py ask PORT`."""

import sys
import time
from concurrent import futures

import grpc

SERVICE = "ecosystem.Echo"


def encode(text):
    """A message whose field 1 is a string; at most 127 bytes."""
    data = text.encode()
    assert len(data) < 128
    return bytes([10, len(data)]) + data if data else b""


def decode(message):
    assert not message or message[0] == 10 and message[1] == len(message) - 2, message
    return message[2:].decode()


class Echo:
    def unary(self, text, context):
        if text == "fail":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "as you wish")
        if text == "slow":
            while context.is_active():
                time.sleep(0.01)
        return text.upper()

    def up(self, texts, context):
        return " ".join(texts)

    def down(self, text, context):
        for number in range(1, 4):
            yield f"{text} {number}"

    def both(self, texts, context):
        for text in texts:
            yield text.upper()


def serve(port):
    echo = Echo()
    kinds = {
        "Unary": (grpc.unary_unary_rpc_method_handler, echo.unary),
        "Up": (grpc.stream_unary_rpc_method_handler, echo.up),
        "Down": (grpc.unary_stream_rpc_method_handler, echo.down),
        "Both": (grpc.stream_stream_rpc_method_handler, echo.both),
    }
    handlers = {name: make(call, decode, encode) for name, (make, call) in kinds.items()}
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def ask(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        unary = channel.unary_unary(f"/{SERVICE}/Unary", encode, decode)
        up = channel.stream_unary(f"/{SERVICE}/Up", encode, decode)
        down = channel.unary_stream(f"/{SERVICE}/Down", encode, decode)
        both = channel.stream_stream(f"/{SERVICE}/Both", encode, decode)
        assert unary("häßlich", timeout=10) == "HÄSSLICH"
        assert up(iter(["a", "b", "c"]), timeout=10) == "a b c"
        assert list(down("n", timeout=10)) == ["n 1", "n 2", "n 3"]
        # Each answer is awaited before the next question is sent.
        answers = []

        def questions():
            for number in range(3):
                yield f"q{number}"
                while len(answers) <= number:
                    time.sleep(0.001)

        for answer in both(questions(), timeout=10):
            answers.append(answer)
        assert answers == ["Q0", "Q1", "Q2"], answers
        fails(grpc.StatusCode.INVALID_ARGUMENT, "as you wish", lambda: unary("fail", timeout=10))
        fails(grpc.StatusCode.DEADLINE_EXCEEDED, "", lambda: unary("slow", timeout=0.2))
    print("passed")


def fails(code, details, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert not details or error.details() == details, error
    else:
        raise AssertionError(f"{code} expected")


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](int(sys.argv[2]))
