"""Which addresses are public, and the verification of TLS certificates."""

import ssl
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from shared.clock import SystemClock
from shared.errors import Unavailable
from shared.http.client import GuardedClient
from shared.http.egress import is_public
from shared.settings import Settings
from tests.support.loopback import reply, serving
from tests.support.names import Names

PUBLIC = "93.184.215.14"


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104  # nothing binds to it
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "2002:5db8:d70e::",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b:1::5db8:d70e",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "5f00::1",
    ],
)
def test_an_address_that_is_not_on_the_internet_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [PUBLIC, "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert is_public(ip_address(address))


async def test_a_certificate_is_verified_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "shop.example")
    speaking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speaking.load_cert_chain(certificate)
    names = Names(shop=[["127.0.0.1"]], other=[["127.0.0.1"]])
    async with serving(reply(b"safe"), tls=speaking) as server:
        client = GuardedClient(Settings(), resolve=names, tls=ssl.create_default_context(cafile=str(certificate)))
        response = await client.get(f"https://shop.example:{server.port}/", trusted=True)
        with pytest.raises(Unavailable):
            await client.get(f"https://other.example:{server.port}/", trusted=True)
        await client.aclose()

    assert response.body == b"safe"
    assert len(server.requests) == 1


def make_certificate(folder: Path, name: str) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = SystemClock().now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    plain = serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path
