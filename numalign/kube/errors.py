"""
How a cluster refuses or fails: errors that `client` raises, and that programs show in a sentence.

    ClusterError
    ├── Unconfigured   no cluster or no credentials are configured
    ├── Unreachable    no answer, no trusted server, or an invalid answer
    │   ├── Throttled  the API server asks to retry later: it is busy, or a budget is used up
    │   └── Failing    the API server reports an internal error
    ├── Unauthorized   the API server does not accept the credentials
    ├── UnknownToken   the API server does not know the token of a caller of numalign
    ├── Forbidden      the credentials are accepted, but not permitted
    ├── NotFound       the requested object does not exist
    ├── Conflict       another writer was first
    ├── Gone           the requested state is too old
    └── InvalidObject  the object to be stored is invalid
"""


class ClusterError(Exception):
    """The cluster did not do what was requested; the text says why, and what to do."""


class Unconfigured(ClusterError):
    """Raised when the kubeconfig cannot be read, or names no cluster or credentials."""


class Unreachable(ClusterError):
    """Raised when there is no answer, no trusted server, or an invalid answer."""


class Throttled(Unreachable):
    """Raised when the API server did nothing and asks to retry later (429)."""


class Failing(Unreachable):
    """Raised when the API server reports an internal error (500)."""


class Unauthorized(ClusterError):
    """Raised when the API server does not accept the credentials."""


class UnknownToken(ClusterError):
    """Raised when the API server does not know the token that a caller sent to this program."""


class Forbidden(ClusterError):
    """Raised when the API server accepts the credentials, but does not permit the request."""


class NotFound(ClusterError):
    """Raised when an object or a whole kind of objects does not exist."""


class Conflict(ClusterError):
    """Raised when an object to be created exists already, or one to be changed was changed meanwhile."""


class Gone(ClusterError):
    """Raised when a page or a resource version is too old."""


class InvalidObject(ClusterError):
    """Raised when an object to be stored is invalid: a field is malformed, or immutable."""
