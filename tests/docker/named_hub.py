"""The stand-in hub of tests/api/hub.py, reached like the real one: found by a name server, behind TLS.

    python3 named_hub.py NAME CERTIFICATE KEY MODEL

Serves MODEL from https://NAME:8443, repository lab/model, and answers on port 53 of 127.0.0.1 that NAME is
there. Meant for a network namespace of its own. CERTIFICATE and KEY are made by certificate(). Prints one
line when it listens; ends with SIGTERM.
"""
import pathlib
import socket
import socketserver
import ssl
import subprocess
import sys
import threading

PORT = 8443


def certificate(name, folder):
    """Makes a self-signed certificate for `name` and its key; returns their paths."""
    paths = folder / "hub.crt", folder / "hub.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048",
                    "-nodes", "-days", "30", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name}", "-out", paths[0], "-keyout", paths[1]],
                   check=True, capture_output=True)
    return paths


class NameServer(socketserver.UDPServer):
    """A name server that knows one name (RFC 1035)."""

    def __init__(self, name):
        self.name = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
        super().__init__(("127.0.0.1", 53), self.answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, request, client, _server):
        question, connection = request
        end = question.index(b"\0", 12) + 1  # the end of the requested name
        known = question[12:end].lower() == self.name
        found = known and question[end:end + 2] == b"\0\1"
        flags = b"\x81\x80" if known else b"\x81\x83"  # 3 means that there is no such name
        head = question[:2] + flags + b"\0\1" + (b"\0\1" if found else b"\0\0") + b"\0\0\0\0"
        # The answer: the name as in the question, an internet address, valid for a second, four bytes.
        address = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton("127.0.0.1")
        connection.sendto(head + question[12:end + 4] + (address if found else b""), client)


def main(name, certificate_file, key_file, model):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
    from hub import Hub, Server

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate_file, key_file)
    model = pathlib.Path(model)
    Server(Hub({model.name: model.read_bytes()}, redirects=False), "hub", PORT, tls)
    NameServer(name)
    print(f"https://{name}:{PORT}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
