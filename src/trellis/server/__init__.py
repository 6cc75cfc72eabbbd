"""The server: taggers behind HTTP, a page to look at what they say, and the Label Studio protocol.

    batcher       requests become batches for one model thread, bounded in tokens, in the order of `queueing`
    limits        what is accepted
    problems      what a client is told if something goes wrong
    shelf         the models by name, and how they are reloaded
    questions     what models are asked, in batches
    schema        requests and answers: how they are read, and what openapi.json says about them
    routes        the addresses
    app           everything together, as an ASGI application
    workers       processes, sockets and signals

It needs the extra `serve`; ``trellis serve`` is the command.
"""

from trellis.server.app import ServerSettings, create_app
from trellis.server.limits import ServerLimits
from trellis.server.shelf import ModelShelf

__all__ = ["ModelShelf", "ServerLimits", "ServerSettings", "create_app"]
