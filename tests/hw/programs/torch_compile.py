# SPDX-License-Identifier: Apache-2.0
"""A function that torch.compile turns into a Triton kernel, called five times."""
import common

torch = common.torch_on_cuda()
common.need("triton")


@torch.compile(dynamic=False)
def gelu_scaled(x, scale):
    return torch.nn.functional.gelu(x) * scale + torch.sin(x)


x = torch.randn(1024, 2048, generator=torch.Generator().manual_seed(3)).cuda()
scale = torch.linspace(0.5, 1.5, 2048).cuda()
with torch.no_grad():
    for _ in range(common.CALLS):
        y = gelu_scaled(x, scale)
torch.cuda.synchronize()
expected = torch.nn.functional.gelu(x.cpu()) * scale.cpu() + torch.sin(x.cpu())
worst = (y.cpu() - expected).abs().max().item()
if not worst <= 1e-4:
    common.fail(f"off by {worst}")
common.finish(common.hash_of(y))
