# SPDX-License-Identifier: Apache-2.0
"""What klab must make of each example and each Python program: kernels, how often they run, which execution to take."""
from capture import Kernel, Program, program_case

MIB = 1 << 20


def P(name, *kernels, args=(), **more):
    return Program(name, kernels, args, **more)


K = Kernel
EXAMPLES = [
    P("saxpy", K("saxpy", 1)),
    P("inplace", K("scale_in_place", 5, 3)),
    P("logistic", K("logistic", 1)),
    P("reduction", K("reduce_sum_max", 2, 2)),
    P("transpose", K("transpose_naive", 1), K("transpose_padded", 1, scopes=("reachable",))),
    P("matmul_wmma", K("matmul_wmma", 1)),
    P("matmul_wgmma", K("matmul_wgmma", 1)),
    P("matmul_wgmma", K("matmul_wgmma", 2, 2, scopes=("reachable",)), args=("--cluster", "--repeat", "2")),
    P("pointer_table", K("weigh_blocks", 1, reachable_below=16 * MIB, all_above=64 * MIB)),
    P("pointer_struct", K("run_job", 1)),
    P("hidden_pointer", K("follow_hidden", 1, proof="not equal", reachable_below=32 * MIB)),
    P("module_variables", K("through_variables", 3, 2)),
    P("graph", K("graph_join", 3, 2), K("graph_fill", 6, 4, scopes=("reachable",)),
      K("graph_mix", 3, 2, scopes=("reachable",))),
    P("graph", K("graph_join", 3, 2), args=("--explicit",)),
    P("grid_sync", K("smooth_steps", 2, 2)),
    P("large_shared", K("sort_in_shared", 1)),
    P("texture", K("sample_textures", 1), K("write_surface", 1)),
    P("managed", K("advance_managed", 3, 2)),
    P("async_pool", K("pool_fold", 6, 4), K("pool_fill", 6, 5, scopes=("reachable",))),
    P("two_streams", K("stream_rotate", 200, 100)),
    P("vmm", K("across_the_seam", 2, 2)),
    P("host_memory", K("from_host_memory", 2, 2)),
    P("cluster", K("cluster_histogram", 2, 2)),
    P("dependent_launch", K("secondary_consume", 4, 3), K("primary_produce", 4, 3, scopes=("reachable",))),
    P("float_atomics", K("sum_atomically", 1, varying=True)),
    P("driver_module", K("add_bias", 2, 2)),
    P("driver_module", K("add_bias", 2, 2, scopes=("reachable",)), args=("--array",)),
    P("forked", K("in_the_child", 1)),
    P("many_launches", K("tiny_add", 2064, 500, scopes=("reachable",)), args=("--size", "2000")),
    P("table_writer", K("write_window", 2, 2, scopes=("reachable",)), args=("--table-gib", "1")),
    P("holder", K("touch_little", 2, 2, scopes=("reachable",), reachable_below=68 * MIB), args=("--hold-gib", "4")),
]

# Patterns are wishes, "||" between them: names of libraries' kernels change from version to version.
REACHABLE = ("reachable",)
PYTHON = [
    P("torch_op.py", K("softmax_warp|SoftMax|softmax", 5, 3), args=("softmax",), pick=True, limit=180),
    P("torch_op.py", K("layer_norm|LayerNorm", 5, 3, scopes=REACHABLE), args=("layer_norm",), pick=True, limit=180),
    P("torch_op.py", K("nvjet||cutlass|gemm|sm90|xmma", 5, 3, scopes=REACHABLE), args=("matmul",), pick=True, limit=180),
    P("torch_op.py", K("elementwise_kernel", 5, 3, scopes=REACHABLE), args=("inplace",), pick=True, limit=180),
    P("torch_compile.py", K("^triton_||triton", 5, 3, scopes=REACHABLE), pick=True, limit=240),
    P("triton_kernel.py", K("row_scale", 5, 3), pick=True, limit=240),
    P("cupy_kernel.py", K("cupy_mix", 5, 3), pick=True, limit=180),
    P("numba_kernel.py", K("numba_mix", 5, 3), pick=True, limit=180),
    P("jax_kernel.py", K("fusion|softmax|loop_", 5, 3, scopes=REACHABLE), pick=True, limit=240),
]

SELF_TEST = [
    P("saxpy", K("saxpy", 1)),
    P("inplace", K("main", 5, 3)),
]


def program_cases(self_test=False):
    """(group, name, function) of every program."""
    def example(program):
        return program_case(program, lambda lab: [lab.example(program.name), *program.args])

    def script(program):
        return program_case(program, lambda lab: [lab.python, str(lab.programs / program.name), *program.args])

    if self_test:
        return [("self-test", p.case, example(p)) for p in SELF_TEST]
    return [("examples", p.case, example(p)) for p in EXAMPLES] + [("python", p.case, script(p)) for p in PYTHON]
