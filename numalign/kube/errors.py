"""
How a cluster refuses or fails: what `client` raises, and programs for people tell in a sentence.

    ClusterError
    ├── Unconfigured   nothing says which cluster, or who asks
    ├── Unreachable    nobody answers, nobody who can be trusted, or nothing that makes sense
    │   ├── Throttled  the API server asks to come later: it has much to do, or a budget is used up
    │   └── Failing    it says of itself that something went wrong there
    ├── Unauthorized   the API server does not know who asks
    ├── UnknownToken   it does not know whose token somebody else showed us
    ├── Forbidden      it knows, and says no
    ├── NotFound       what was asked for is not there
    ├── Conflict       somebody else was there first
    ├── Gone           the state that was asked for is too old to be had
    └── InvalidObject  what was to be stored must not be so
"""


class ClusterError(Exception):
    """The cluster did not give what was asked for; the text says why, and what to do."""


class Unconfigured(ClusterError):
    """Raised when the kubeconfig cannot be read, or does not say which cluster or who asks."""


class Unreachable(ClusterError):
    """Raised when nobody answers, nobody who can be trusted, or nothing that makes sense."""


class Throttled(Unreachable):
    """Raised when the API server did nothing and asks to come again later (429)."""


class Failing(Unreachable):
    """Raised when the API server says that it failed (500)."""


class Unauthorized(ClusterError):
    """Raised when the API server does not accept the credentials."""


class UnknownToken(ClusterError):
    """Raised when the API server does not know whose token it is that somebody showed to this program."""


class Forbidden(ClusterError):
    """Raised when the API server accepts who asks, but not what is asked for."""


class NotFound(ClusterError):
    """Raised when an object or a whole kind of objects is not there."""


class Conflict(ClusterError):
    """Raised when an object to be made is there already, or one to be changed was changed meanwhile."""


class Gone(ClusterError):
    """Raised when a page or a resource version is too old to be had."""


class InvalidObject(ClusterError):
    """Raised when an object must not be as it was to be stored: a field is of another form, or fixed."""
