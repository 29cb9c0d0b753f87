"""Errors with W&B's names."""


class Error(Exception):
    def __init__(self, message, context=None):
        super().__init__(message)
        self.message = message


class CommError(Error):
    """The call would need W&B's servers."""


class AuthenticationError(CommError):
    pass


class UsageError(Error):
    """The call is invalid."""


class UnsupportedError(UsageError):
    pass


class WandbCoreNotAvailableError(Error):
    pass
