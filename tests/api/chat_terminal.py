"""A chat of `hearthd run` on a pseudo terminal."""
import os
import pty
import select
import time

import hearthd

SETTINGS = {"TERM": "dumb", "NO_COLOR": "1"}


class Terminal:
    """A chat on a pseudo terminal."""

    def __init__(self, *arguments):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execve(hearthd.BINARY, ["hearthd", "run", *map(str, arguments)],
                      hearthd.clean_environment(SETTINGS))
        self.pid, self.seen = pid, ""

    def wait_for(self, text):
        """Reads until the text appears, and returns everything up to its end."""
        deadline = time.monotonic() + hearthd.PATIENCE
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {text!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                assert text in self.seen, self.seen
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
