# SPDX-License-Identifier: Apache-2.0
"""One operation of PyTorch, five times: softmax, layer_norm, matmul (bf16, cuBLASLt) or inplace."""
import sys

import common

torch = common.torch_on_cuda()
what = sys.argv[1] if len(sys.argv) > 1 else "softmax"


def noise(*shape, dtype=torch.float32):
    # From the host's generator, so that one operation's kernels are all that runs often.
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)).to(dtype).cuda()


with torch.no_grad():
    if what == "softmax":
        x = noise(2048, 1024)
        for _ in range(common.CALLS):
            y = torch.softmax(x, dim=1)
        expected = torch.softmax(x.cpu().double(), dim=1)
        tolerance = 1e-6
    elif what == "layer_norm":
        x, weight, bias = noise(2048, 1024), noise(1024), noise(1024)
        for _ in range(common.CALLS):
            y = torch.nn.functional.layer_norm(x, (1024,), weight, bias)
        expected = torch.nn.functional.layer_norm(x.cpu().double(), (1024,), weight.cpu().double(), bias.cpu().double())
        tolerance = 1e-4
    elif what == "matmul":
        a, b, bias = noise(1024, 1024, dtype=torch.bfloat16), noise(1024, 1024, dtype=torch.bfloat16), noise(
            1024, dtype=torch.bfloat16)
        for _ in range(common.CALLS):
            y = torch.nn.functional.linear(a, b, bias)
        expected = a.cpu().double() @ b.cpu().double().T + bias.cpu().double()
        tolerance = 1.0  # bf16 results of about 100
    elif what == "inplace":
        x = noise(1 << 22)
        for _ in range(common.CALLS):
            x.mul_(1.5)
        y = x
        expected = noise(1 << 22).cpu().double() * 1.5**common.CALLS
        tolerance = 1e-4
    else:
        common.skip(f"no operation {what}")
torch.cuda.synchronize()
worst = (y.cpu().double() - expected).abs().max().item()
if not worst <= tolerance:
    common.fail(f"off by {worst}")
common.finish(common.hash_of(y))
