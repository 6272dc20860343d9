# SPDX-License-Identifier: Apache-2.0
"""A PyTorch loop that is bound by launching: ten small kernels a step. Prints the median host time of a step."""
import common

torch = common.torch_on_cuda()
x, y = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")


def step():
    for _ in range(5):
        x.mul_(1.0)
        y.add_(1.0)


with torch.no_grad():
    us = common.median_us(step, torch.cuda.synchronize, rounds=40, per_round=100)
common.finish(common.hash_of(x, y), us_per_step=us)
