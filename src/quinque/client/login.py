"""Log in at a broker, with TLS if requested.

Called by   aio/broker.py, cli/line.py.
Calls       nothing.

Not here: user and password in a URL (addresses.py).
"""

from __future__ import annotations

import errno
import ssl
from typing import Final

from quinque.errors import BadSetting, NoAuth, QuinqueError

PASSWORD_IS_MISSING: Final = " Pass password=, or put it in the URL."

# OpenSSL: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10


def login_words(username: str, password: str) -> list[bytes]:
    """Return the arguments of AUTH; empty if neither is set. Raises BadSetting, whose text has
    neither."""
    try:
        who = username.encode("utf-8", "surrogateescape")
        word = password.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadSetting("username or password cannot be encoded") from None
    if not who:
        return [word] if word else []
    return [who, word]


def tls_context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Make a context from PEM files. Raises BadSetting."""
    if key and not certificate:
        raise BadSetting(f"key {key} is given without its certificate")
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (ca, certificate, key)))
        # An SSLError is an OSError too, and has no errno of the system.
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            raise BadSetting(f"cannot read {named}: {error.strerror}") from error
        raise BadSetting(f"{named}: not valid PEM files for TLS") from error
    return context


# OpenSSL: self-signed, self-signed in the chain, and an unknown issuer.
_UNKNOWN_CA: Final = (18, 19, 20)

# Errors of OpenSSL for a server that answers in plain text; which one depends on its version.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def untrusted(address: object, error: ssl.SSLCertVerificationError) -> BadSetting:
    """Make the error for a broker whose certificate cannot be verified."""
    if error.verify_code == _EXPIRED:
        return BadSetting(
            f"the certificate of {address} has expired: start the broker with a new one (tls-cert)"
        )
    if error.verify_code == _NOT_YET_VALID:
        return BadSetting(
            f"the certificate of {address} is not valid yet: the clock here, or that of the machine"
            " on which it was made, is wrong"
        )
    why = f"cannot verify the TLS certificate of {address}: {error.verify_message}"
    if error.verify_code in _UNKNOWN_CA:
        why += "; pass the file of its CA certificate (--ca, or ca= in Python)"
    return BadSetting(why)


def with_advice(error: QuinqueError) -> QuinqueError:
    """Return the error with which a broker refuses a new connection, with advice."""
    return NoAuth(f"{error}{PASSWORD_IS_MISSING}") if type(error) is NoAuth else error


def why_closed(error: OSError, *, is_tls: bool, certificate: str | None = None) -> str:
    """Return why a broker did not answer on a new connection, with advice. A broker that expects
    TLS, or does not accept the client's certificate, may close the connection without an error."""
    is_nobody = f"[Errno {errno.ECONNREFUSED}]" in str(error)  # maybe at several addresses
    if is_nobody or isinstance(error, FileNotFoundError):
        return f"{error}; start one with: quinque serve"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if is_tls and reason in _NOT_TLS:
        return f"{error}; this address does not use TLS: use redis://, or the TLS port"
    is_closed = isinstance(error, ConnectionResetError | ssl.SSLEOFError)
    if not is_tls:
        return f"{error}; if it expects TLS, use rediss://" if is_closed else str(error)
    if not is_closed and "ALERT" not in reason:
        return str(error)
    hint = (
        f"the broker may not accept the certificate {certificate}: it may have expired, or "
        "tls-ca of the broker may not contain its authority"
        if certificate
        else "the broker may require a client certificate: pass certificate= and key="
    )
    return f"{error}; {hint}; the broker's log has the reason"
