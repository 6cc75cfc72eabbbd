"""LitServe with a model of ours, as its guide tells: batches of 64 requests, 2 ms for company.

python benchmarks/_litserve.py PORT MODEL
"""

from __future__ import annotations

import sys
from itertools import accumulate, chain
from typing import Any

import litserve

import trellis


class Tags(litserve.LitAPI):  # type: ignore[misc]
    """Token lists in, tags out; what ours answers to the same request."""

    def setup(self, device: str) -> None:
        self.tagger = trellis.load(sys.argv[2])

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # LitServe reads annotations
        return list(request["tokens"])

    def batch(self, inputs: list[list[list[str]]]) -> list[list[list[str]]]:
        return inputs

    def predict(self, batch: list[list[list[str]]]) -> list[list[list[str]]]:
        tags = self.tagger.predict(list(chain.from_iterable(batch)))
        ends = [0, *accumulate(map(len, batch))]
        return [tags[ends[i] : ends[i + 1]] for i in range(len(batch))]

    def unbatch(self, output: list[list[list[str]]]) -> list[list[list[str]]]:
        return output

    def encode_response(self, output: list[list[str]]) -> dict[str, Any]:
        return {"results": [{"tags": tags} for tags in output]}


if __name__ == "__main__":
    api = Tags(max_batch_size=64, batch_timeout=0.002, api_path="/v1/tag")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[1]), host="127.0.0.1", log_level="error", generate_client_file=False)
