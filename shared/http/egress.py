"""The egress guard: which addresses are public, and a network backend that connects to no others.

It resolves the host, checks every address and connects to a checked address. Resolving only once protects against
DNS rebinding.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

import httpcore

from shared.errors import ToolError, Unavailable

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_ADDRESSES_TRIED = 4
CONNECT_SECONDS = 10.0
HOST_NOT_FOUND = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))

NOT_PUBLIC_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # unspecified
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the host's services in Azure
        "169.254.0.0/16",  # link-local, where most clouds serve a machine's credentials
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: leads to any IPv4 address
        "3fff::/20",  # documentation
    )
)
NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Tell whether an address is on the public internet; IPv4 addresses embedded in IPv6 are checked as IPv4."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in GLOBAL_UNICAST_V6 and not any(address in network for network in NOT_PUBLIC_V6)


class SystemResolver:
    """The system's resolver, in a thread pool of its own, so that a slow name server does not block other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host in order of preference; raises `socket.gaierror`."""
        entries = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class GuardedNetwork(httpcore.AnyIOBackend):
    """A network backend for httpcore; with `public_only`, it connects to public addresses only.

    Raises `ToolError` for a host that does not exist or is not public, `Unavailable` when DNS fails.
    """

    def __init__(self, resolve: Resolve, *, public_only: bool) -> None:
        self._resolve = resolve
        self._public_only = public_only

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve the host, check every address, and connect to the first one that accepts."""
        try:
            addresses = [ip_address(address) for address in await self._resolve(host, port)]
        except socket.gaierror as error:
            if error.errno in HOST_NOT_FOUND:
                raise ToolError(f"There is no host named {host}.") from error
            raise Unavailable(f"{host} can't be looked up just now.") from error
        except UnicodeError as error:
            raise ToolError(f"{host[:80]} is not a host name.") from error
        if self._public_only and not all(is_public(address) for address in addresses):
            raise ToolError(f"{host} is not on the public internet; only public addresses can be opened.")
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses[:MAX_ADDRESSES_TRIED]:
            try:
                return await super().connect_tcp(
                    str(address), port, min(timeout or CONNECT_SECONDS, CONNECT_SECONDS), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure
