# SPDX-License-Identifier: Apache-2.0
"""What the examples dispatch, as a person who reads their sources knows it: kernels, executions, grids.

`calls` maps each kernel's shader to how often it is dispatched. `named` says that the program gives debug names.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Program:
    program: str
    args: tuple = ()
    shaders: tuple = ()      # (shader stem, executions) of each kernel (pipeline), in no order
    named: tuple = ()        # debug names of pipelines, where there are any
    varying: bool = False    # a word of the output changes from run to run
    nth: int = 1             # execution to capture

    @property
    def calls(self):
        return sum(n for _, n in self.shaders)


PROGRAMS = [
    Program("saxpy", shaders=(("saxpy", 1),)),
    Program("inplace", shaders=(("inplace", 5),), nth=3),
    Program("reduction", shaders=(("reduction", 2),), nth=2),
    Program("matmul_tiled", shaders=(("matmul_tiled", 1), ("matmul_tiled_naive", 1)),
            named=("matmul_tiled", "matmul_naive")),
    Program("pointer_table", shaders=(("pointer_table", 1),), named=("pointer_table",)),
    Program("indirect", shaders=(("indirect_plan", 2), ("indirect_fix", 2))),
    Program("many_dispatches", shaders=(("many_dispatches_scale", 201), ("many_dispatches_mix", 201),
                                        ("many_dispatches_fold", 198)), named=("scale", "mix", "fold"), nth=150),
    Program("two_queues", shaders=(("two_queues", 16),), nth=7),
    Program("spec_constants", shaders=(("spec_constants", 1),) * 3),
    Program("push_descriptors", shaders=(("push_descriptors", 2),), nth=2),
    Program("small_types", shaders=(("small_types", 1),)),
    Program("float_atomics", shaders=(("float_atomics", 1),), named=("float_atomics",), varying=True),
    Program("float_atomics", ("--hardware-add",), shaders=(("float_atomics_add", 1),), named=("float_atomics_add",),
            varying=True),
    Program("descriptor_array", shaders=(("descriptor_array", 2),), nth=2),
    Program("secondary", shaders=(("secondary", 2),), nth=2),
    Program("idempotent", shaders=(("idempotent_clamp", 1), ("idempotent_fill", 1)),
            named=("idempotent_clamp", "idempotent_fill")),
    Program("forked", shaders=(("forked", 1),)),
]
