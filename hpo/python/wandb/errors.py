"""Errors under W&B's names."""


class Error(Exception):
    def __init__(self, message, context=None):
        super().__init__(message)
        self.message = message


class CommError(Error):
    """What would need W&B's servers."""


class AuthenticationError(CommError):
    pass


class UsageError(Error):
    """The call makes no sense."""


class UnsupportedError(UsageError):
    pass


class WandbCoreNotAvailableError(Error):
    pass
