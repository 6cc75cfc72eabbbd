"""The server: taggers behind HTTP, a page to look at what they say, and the Label Studio protocol.

    schemas       requests and answers, as msgspec structs; `openapi` describes them
    problems      what a client is told if something goes wrong
    limits        what is accepted; `security` says from whom
    registry      the models by name, and how they are reloaded
    inference     what models are asked for, in batches
    jobs          requests become jobs: `constraints` are what a client knows already
    batcher       jobs become batches for one model thread, bounded in tokens, in a fair order
    annotation    `corrections`, learning from them, and the sentences worth labelling next
    app           the addresses, and everything together as an ASGI application
    runner        the application in processes of granian

It needs the extra `serve`; ``trellis serve`` is the command.
"""

from trellis.server.annotation import AnnotationSettings, LearningData
from trellis.server.app import ServerSettings, create_app
from trellis.server.corrections import Corrections
from trellis.server.limits import ServerLimits
from trellis.server.registry import ModelRegistry
from trellis.server.security import Keys

__all__ = [
    "AnnotationSettings",
    "Corrections",
    "Keys",
    "LearningData",
    "ModelRegistry",
    "ServerLimits",
    "ServerSettings",
    "create_app",
]
