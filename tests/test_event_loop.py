"""The loop of the tests: what one of them leaves open keeps no test process from its end."""

import asyncio
import socket
import threading
import warnings

from tests.support.eventually import PATIENCE


def test_a_loop_with_an_open_connection_is_closed_though_warnings_are_errors() -> None:
    loop = asyncio.new_event_loop()
    ours, its = socket.socketpair()
    with ours, its:
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=its))

        # In a thread that ends with the process: a loop that waits would hear no signal.
        closing = threading.Thread(target=loop.close, daemon=True)
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("error")
            closing.start()
            closing.join(PATIENCE)

        assert not closing.is_alive()
        assert ["unclosed resource" in str(warning.message) for warning in log] == [True]
