# SPDX-License-Identifier: Apache-2.0
"""Training steps of a small transformer layer on random data. Prints the median host time of a step."""
import common

torch = common.torch_on_cuda()
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, device="cuda",
                                         dtype=torch.bfloat16)
head = torch.nn.Linear(1024, 1024, device="cuda", dtype=torch.bfloat16)
parameters = [*layer.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-4)
x = torch.randn(32, 512, 1024, device="cuda", dtype=torch.bfloat16)
target = torch.randn(32, 512, 1024, device="cuda", dtype=torch.bfloat16)


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(head(layer(x)), target)
    loss.backward()
    optimizer.step()


us = common.median_us(step, torch.cuda.synchronize, rounds=15, per_round=2)
# The weights are not bit for bit the same from run to run (atomics in backward passes), so their shape is hashed.
if not all(bool(torch.isfinite(p).all()) for p in parameters):
    common.fail("a weight is not finite")
common.finish(common.hash_of(torch.tensor([p.numel() for p in parameters])), us_per_step=us)
