"""Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from core.server.http import NO_STORE

_TYPES = {429: "requests"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class ApiError(Exception):
    """A request that is refused, or an answer that broke off. param: the field that is to blame."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
        self.code = code or _CODES.get(status)

    def to_dict(self) -> dict[str, Any]:
        """The body."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, kind),
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self, retry_after_s: int | None = None) -> JSONResponse:
        """The whole answer."""
        answer = JSONResponse(self.to_dict(), self.status, NO_STORE)
        if retry_after_s is not None:
            answer.headers["Retry-After"] = str(retry_after_s)
        return answer
