# SPDX-License-Identifier: Apache-2.0
"""What the Python programs share: one line with a hash of the result, and exit code 77 where a package is missing.

They are ordinary programs and know nothing of Klab. Each runs its operation five times.
"""
import hashlib
import importlib
import statistics
import sys
import time

CALLS = 5


def name():
    return sys.argv[0].rsplit("/", 1)[-1].removesuffix(".py")


def need(*modules):
    """Imports each; ends the program with 77 where one is missing or finds no device."""
    found = []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except Exception as error:  # a package whose libraries do not load is missing too
            skip(f"{module}: {' '.join(str(error).split())[:200]}")
    return found[0] if len(found) == 1 else found


def skip(why):
    print(f"{name()}: skipped, {why}", flush=True)
    sys.exit(77)


def torch_on_cuda():
    torch = need("torch")
    if not torch.cuda.is_available():
        skip("torch sees no CUDA device")
    torch.manual_seed(1)
    return torch


def hash_of(*arrays):
    """Of the bytes of NumPy arrays or torch tensors."""
    h = hashlib.sha256()
    for a in arrays:
        if hasattr(a, "detach"):
            a = a.detach().contiguous().cpu()
            a = a.view(dtype=__import__("torch").uint8).numpy() if a.dim() else a.reshape(1).view(
                dtype=__import__("torch").uint8).numpy()
        h.update(a.tobytes())
    return h.hexdigest()[:16]


def finish(result_hash, **numbers):
    more = "".join(f", {k} {v:.3f}" for k, v in numbers.items())
    print(f"{name()}: ok, hash {result_hash}{more}", flush=True)


def fail(why):
    print(f"{name()}: wrong, {why}", flush=True)
    sys.exit(1)


def median_us(step, synchronize, rounds, per_round):
    """Median over `rounds` of the host time of one step, in microseconds; the first fifth warms up."""
    times = []
    for r in range(rounds + rounds // 5):
        synchronize()
        begin = time.perf_counter()
        for _ in range(per_round):
            step()
        synchronize()
        if r >= rounds // 5:
            times.append((time.perf_counter() - begin) / per_round * 1e6)
    return statistics.median(times)
