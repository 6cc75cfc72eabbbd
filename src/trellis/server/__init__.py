"""The server: taggers behind HTTP, a page to look at what they say, and the Label Studio protocol.

    schemas       requests and answers, as msgspec structs
    problems      what a client is told if something goes wrong
    limits        what is accepted; `body_limits` and `security` enforce it
    registry      the models by name, and how they are reloaded
    jobs          requests become jobs: `constraints` are what a client knows already
    questions     what models are asked, in batches
    batcher       jobs become batches for one model thread, bounded in tokens, in the order of `fair_queue`
    routes, app   the addresses, and everything together as an ASGI application
    runner        the application in processes of granian

It needs the extra `serve`; ``trellis serve`` is the command.
"""

from trellis.server.app import ServerSettings, create_app
from trellis.server.limits import ServerLimits
from trellis.server.registry import ModelRegistry

__all__ = ["ModelRegistry", "ServerLimits", "ServerSettings", "create_app"]
