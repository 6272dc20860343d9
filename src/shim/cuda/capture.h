// SPDX-License-Identifier: Apache-2.0
// A launch of the program, seen before and after it: counting, and when it is the wanted one, the capture around it.
// Not here: how callbacks arrive (callbacks.cpp), what is read (snapshot.h).
#pragma once
#include "shim/cuda/kernels.h"
#include "shim/cuda/launch.h"

namespace klab::shim {

/// The program is about to launch. `symbol`: its name as CUPTI gives it, or null. Returns quickly unless wanted.
void launch_begins(const Launch& launch, const char* symbol, CUcontext context);
/// The launch that this thread has begun has returned `result`.
void launch_ended(CUresult result);

/// Kernel nodes of a graph that was instantiated; the graph is still there.
void graph_instantiated(CUgraphExec exec, CUgraph graph);
void graph_forgotten(CUgraphExec exec);
/// The program is about to launch a graph: its kernels count, and a wanted one is refused by name.
void graph_launch_begins(CUgraphExec exec, CUstream stream);

void capture_after_fork();

}  // namespace klab::shim
